"""``vibe plan run`` as a person sees it: the installed command on a terminal.

Covers ``vibe.cli.terminal``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.e2e.conftest import command_step, interrupt
from tests.fakes.terminal import Terminal

REPOSITORY = Path(__file__).parents[2]
VIBE = Path(sys.executable).with_name("vibe")
QUICKSTART = REPOSITORY / "plans-examples" / "quickstart.json"


@pytest.fixture
def environ(vibe_home: Path, tmp_path: Path) -> dict[str, str]:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "LC_ALL", "HOME"}}
    return {**kept, "VIBE_HOME": str(vibe_home), "TMPDIR": str(temporary)}


def running(
    terminal: Terminal, environ: dict[str, str], *flags: str, plan: Path = QUICKSTART
) -> AbstractContextManager[subprocess.Popen[bytes]]:
    return terminal.running(VIBE, "plan", "run", plan, *flags, cwd=environ["TMPDIR"], env=environ)


def waiting(step_id: str, *needs: str) -> dict[str, object]:
    """Return a step that ends once a file with its name exists, so that nothing moves on before it has been seen."""
    command = f"while [ ! -e {step_id} ]; do sleep 0.02; done"
    return command_step(step_id, command, depends_on=list(needs))


def test_a_person_sees_which_steps_run_which_wait_and_what_they_wait_for(environ: dict[str, str]) -> None:
    folder = Path(environ["TMPDIR"])
    plan = folder / "plan.json"
    steps = [waiting("survey"), waiting("slugify", "survey"), waiting("shorten", "survey")]
    steps.append(waiting("test", "slugify", "shorten"))
    plan.write_text(json.dumps({"version": 1, "goal": "Give textkit two functions", "steps": steps}))

    with Terminal(80, 40) as terminal, running(terminal, environ, plan=plan) as process:
        terminal.wait_for("Give textkit two functions")
        terminal.wait_for("0/4 · ")
        terminal.wait_for("after slugify, shorten")
        for name, seen in {"survey": "1/4 · ", "slugify": "2/4 · "}.items():
            (folder / name).touch()
            terminal.wait_for(seen)
        for name in ("shorten", "test"):
            (folder / name).touch()
        assert process.wait(timeout=120) == 0
        terminal.wait_for("done: ")
        assert not any("/4 · " in line for line in terminal.screen()), "the live picture is gone"


def test_a_person_watches_the_quickstart_run_and_reads_how_it_ended(environ: dict[str, str]) -> None:
    with Terminal(80, 40) as terminal, running(terminal, environ, "--approve", "edits") as process:
        terminal.wait_until_seen("Give textkit a slugify() and a shorten() function")
        terminal.wait_until_seen("/6 · ")
        assert process.wait(timeout=120) == 0
        terminal.wait_for("done: ")
        screen = terminal.screen()
        assert not any("/6 · " in line for line in screen), "the live picture is gone"
        for step in ("survey", "design", "slugify", "shorten", "test", "docs"):
            assert any(re.match(rf"✓ {step} +completed ", line) for line in screen), screen
        assert terminal.sent().rindex("\x1b[?25h") > terminal.sent().rindex("\x1b[?25l")


def without_writes(environ: dict[str, str]) -> Path:
    """Copy the quickstart, with steps that do not name the files they edit, so that each edit needs approval."""
    folder = Path(environ["TMPDIR"])
    shutil.copytree(QUICKSTART.parent / "quickstart", folder / "quickstart")
    document = json.loads(QUICKSTART.read_text())
    for step in document["steps"]:
        step.pop("writes", None)
    plan = folder / "quickstart.json"
    plan.write_text(json.dumps(document))
    return plan


def test_a_person_is_asked_before_a_file_is_written_and_their_yes_counts(environ: dict[str, str]) -> None:
    with (
        Terminal(100, 50) as terminal,
        running(terminal, environ, "--max-parallel", "1", plan=without_writes(environ)) as process,
    ):
        answered = 0
        while process.poll() is None:
            asked = terminal.sent().count("or: n WHY  > ")
            if asked > answered:
                answered = asked
                terminal.type("y\n")
            time.sleep(0.01)
        assert process.returncode == 0
        assert answered >= 4
        assert any("? new " in line and "for step " in line for line in terminal.screen())


def test_an_interrupt_at_the_question_gives_the_terminal_back(environ: dict[str, str]) -> None:
    with Terminal(100, 50) as terminal, running(terminal, environ, plan=without_writes(environ)) as process:
        terminal.wait_for("or: n WHY  >")
        interrupt(process)  # pauses, while the step waits for its answer
        interrupt(process)  # cancels at once
        assert process.wait(timeout=120) == 130
        terminal.wait_for("vibe plan resume")
        sent = terminal.sent()
        assert sent.rindex("\x1b[?25h") > sent.rindex("\x1b[?25l")
