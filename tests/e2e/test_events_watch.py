"""``vibe events watch``: a plan that runs in one process, watched on the terminal of another.

Covers ``vibe.cli.commands``, ``ipc``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.e2e.conftest import command_step
from tests.fakes.terminal import SECONDS, Terminal

VIBE = Path(sys.executable).with_name("vibe")
DOWN = "\x1b[B"

Begin: TypeAlias = Callable[..., AbstractContextManager[subprocess.Popen[bytes]]]


@pytest.fixture
def environ(vibe_home: Path, tmp_path: Path) -> dict[str, str]:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "LC_ALL", "HOME"}}
    return {**kept, "VIBE_HOME": str(vibe_home), "TMPDIR": str(temporary)}


@pytest.fixture
def begin(environ: dict[str, str]) -> Begin:
    """Return a context that runs a plan of two steps elsewhere.

    ``look`` prints, and waits for a file ``go``. ``act`` comes after it.
    """

    @contextmanager
    def begun(last: str = "echo it is done") -> Generator[subprocess.Popen[bytes]]:
        folder = Path(environ["TMPDIR"])
        first = command_step("look", "echo here it is; while [ ! -e go ]; do sleep 0.02; done")
        steps = [first, command_step("act", last, depends_on=["look"])]
        (folder / "plan.json").write_text(json.dumps({"version": 1, "goal": "Look, then act", "steps": steps}))
        words = [VIBE, "plan", "run", "plan.json"]
        with subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env=environ,
            start_new_session=True,
        ) as process:
            try:
                yield process
            finally:
                (folder / "go").touch()  # a command outlives a killed run
                process.kill()

    return begun


@contextmanager
def watched(environ: dict[str, str], rows: int = 24) -> Generator[tuple[Terminal, subprocess.Popen[bytes]]]:
    folder = environ["TMPDIR"]
    wait_until_published(environ)
    with Terminal(100, rows) as terminal, terminal.running(VIBE, "events", "watch", cwd=folder, env=environ) as process:
        terminal.wait_for("0/2 · ")
        yield terminal, process


def wait_until_published(environ: dict[str, str]) -> None:
    """Wait until the plan's first step has printed something."""
    deadline = time.monotonic() + SECONDS
    while not any(
        b"here it is" in path.read_bytes() for path in Path(environ["VIBE_HOME"]).glob("run/*/journal.jsonl")
    ):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_person_opens_a_step_of_a_run_elsewhere_goes_back_and_reads_how_it_ended(
    environ: dict[str, str], begin: Begin
) -> None:
    with begin() as run, watched(environ) as (terminal, process):
        terminal.wait_for("Look, then act")
        terminal.wait_for("after look")
        terminal.type(DOWN)
        terminal.type("\n")
        terminal.wait_for("look: Step look · in_progress")
        terminal.wait_for("│ here it is")
        terminal.type("\x1b")
        terminal.wait_for("q: leave (the run continues)")
        terminal.type("2t")
        terminal.wait_for("act: Step act · blocked")
        terminal.wait_for("nothing yet")
        (Path(environ["TMPDIR"]) / "go").touch()
        assert process.wait(timeout=120) == 0
        assert run.wait(timeout=120) == 0
        terminal.wait_for("completed: 2 of 2 steps done in ")
        assert not any("act: Step act" in line for line in terminal.screen()), "the picture is gone"


def test_the_exit_code_is_that_of_the_run(environ: dict[str, str], begin: Begin) -> None:
    with begin("exit 7") as run, watched(environ) as (terminal, process):
        (Path(environ["TMPDIR"]) / "go").touch()
        assert (process.wait(timeout=120), run.wait(timeout=120)) == (1, 1)
        terminal.wait_for("failed: 1 of 2 steps done in ")


def test_leaving_and_an_interrupt_leave_the_run_alone(environ: dict[str, str], begin: Begin) -> None:
    with begin() as run:
        with watched(environ) as (terminal, process):
            terminal.type("q")
            assert process.wait(timeout=120) == 0
        with watched(environ) as (terminal, process):
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=120) == 130
            sent = terminal.sent()
            assert sent.rindex("\x1b[?25h") > sent.rindex("\x1b[?25l")
        assert run.poll() is None
        (Path(environ["TMPDIR"]) / "go").touch()
        assert run.wait(timeout=120) == 0


def test_a_run_that_is_killed_is_said_not_to_have_ended_well(environ: dict[str, str], begin: Begin) -> None:
    with begin() as run, watched(environ) as (terminal, process):
        run.kill()
        assert process.wait(timeout=120) == 1
        terminal.wait_for("its process died; `vibe plan resume ")


def test_without_a_terminal_or_a_run_it_says_what_to_do(environ: dict[str, str]) -> None:
    words = [VIBE, "events", "watch", "nothing"]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "stdout is not a terminal; for events as lines, run `vibe events tail --from 1`" in done.stderr
    with Terminal() as terminal, terminal.running(*words, cwd=environ["TMPDIR"], env=environ) as process:
        assert process.wait(timeout=120) == 2
        terminal.wait_for("is not a run on this machine")
