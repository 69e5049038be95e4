"""``vibe plan run`` as a person sees it: the installed command, on a terminal."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.fakes.terminal import Terminal

REPOSITORY = Path(__file__).parents[2]
VIBE = Path(sys.executable).with_name("vibe")
QUICKSTART = REPOSITORY / "plans-examples" / "quickstart.json"


@pytest.fixture
def environ(vibe_home: Path, tmp_path: Path) -> dict[str, str]:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "LC_ALL", "HOME"}}
    return {**kept, "VIBE_HOME": str(vibe_home), "TMPDIR": str(temporary), "TERM": "xterm-256color"}


@contextmanager
def running(terminal: Terminal, environ: dict[str, str], *flags: str) -> Generator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [VIBE, "plan", "run", QUICKSTART, *flags],
        stdin=terminal.slave,
        stdout=terminal.slave,
        stderr=terminal.slave,
        env=environ,
        cwd=environ["TMPDIR"],
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_person_watches_the_plan_run_and_reads_how_it_ended(environ: dict[str, str]) -> None:
    with Terminal(80, 40) as terminal, running(terminal, environ, "--approve", "edits") as process:
        terminal.wait_for("Give textkit a slugify() and a shorten() function")
        terminal.wait_for("0/6 steps · 1 running")
        terminal.wait_for("after slugify, shorten")
        terminal.wait_for("2/6 steps")
        assert process.wait(timeout=50) == 0
        terminal.wait_for(" completed in ")
        screen = terminal.screen()
        assert not any("/6 steps" in line for line in screen), "the live picture is gone"
        for step in ("survey", "design", "slugify", "shorten", "test", "docs"):
            assert any(re.match(rf"✓ {step} +completed ", line) for line in screen), screen
        assert terminal.sent().rindex("\x1b[?25h") > terminal.sent().rindex("\x1b[?25l")


def test_a_person_is_asked_before_a_file_is_written_and_their_yes_counts(environ: dict[str, str]) -> None:
    with Terminal(100, 50) as terminal, running(terminal, environ, "--max-parallel", "1") as process:
        answered = 0
        while process.poll() is None:
            asked = terminal.sent().count("or: n WHY  > ")
            if asked > answered:
                answered = asked
                terminal.type("y\n")
        assert process.returncode == 0
        assert answered >= 4
        assert any("? write_file wants to run  for step: Write slugify()" in line for line in terminal.screen())


def test_an_interrupt_at_the_question_gives_the_terminal_back(environ: dict[str, str]) -> None:
    with Terminal(100, 50) as terminal, running(terminal, environ) as process:
        terminal.wait_for("or: n WHY  >")
        interrupt(process)  # pause: the step waits for its answer
        interrupt(process)  # cancel now
        assert process.wait(timeout=30) == 130
        terminal.wait_for("vibe plan resume")
        sent = terminal.sent()
        assert sent.rindex("\x1b[?25h") > sent.rindex("\x1b[?25l")


def interrupt(process: subprocess.Popen[bytes]) -> None:
    """Send one Ctrl-C, and leave time to notice it: two that are pending at once are one."""
    process.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=1.5)
