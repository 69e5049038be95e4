"""``vibe plan edit`` with an editor, on a terminal.

Covers ``vibe.cli.commands``.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.conftest import VIBE, Finished, VibeCommand, command_step, snapshot
from tests.fakes.terminal import Terminal
from tests.fakes.waiting import until

WritePlan = Callable[..., str]

SECONDS = 20


@pytest.fixture
def paused(vibe: VibeCommand, write_plan: WritePlan) -> str:
    """Run a plan until it pauses with a step still to come, and return its id."""
    decision = {"id": "ok", "question": "OK?", "options": [{"id": "y", "label": "Y"}, {"id": "n", "label": "N"}]}
    plan = write_plan(command_step("a", "echo before", decision="ok"), decisions=[decision])
    assert vibe("plan", "run", plan).code == 5
    return vibe.plan_ids()[0]


@contextmanager
def editing(
    vibe: VibeCommand, terminal: Terminal, plan_id: str, editor: str, **more: str
) -> Generator[subprocess.Popen[bytes]]:
    """Run ``vibe plan edit`` with a shell script as the editor, which finds the file in ``$1``."""
    script = vibe.workdir / "editor"
    script.write_text(f"#!/bin/sh\necho called >> {vibe.workdir}/calls\n{editor}\n")
    script.chmod(0o755)
    variables = {**vibe.variables(), "EDITOR": f"{script} --flag", **more}
    with terminal.running(VIBE, "plan", "edit", plan_id, cwd=vibe.workdir, env=variables) as process:
        yield process


def calls(vibe: VibeCommand) -> int:
    return (vibe.workdir / "calls").read_text().count("called")


def test_what_is_changed_in_the_editor_is_changed_in_the_plan(vibe: VibeCommand, paused: str) -> None:
    with Terminal(100, 30) as terminal:
        with editing(vibe, terminal, paused, 'test "$1" = --flag && sed -i s/before/after/ "$2"') as process:
            assert process.wait(SECONDS) == 0
        terminal.wait_for("change step a: command = 'echo after'")
        terminal.wait_for(f"vibe plan resume {paused}")

    assert vibe("plan", "show", paused, "--output", "json").document["steps"][0]["command"] == "echo after"
    assert not list(Path(vibe.environ["TMPDIR"]).glob("vibe-edit-*"))


def test_an_editor_that_was_closed_without_a_change_changes_nothing(vibe: VibeCommand, paused: str) -> None:
    before = snapshot(vibe.home / "plans")
    with Terminal(100, 30) as terminal:
        with editing(vibe, terminal, paused, "true", VISUAL="true") as process:
            assert process.wait(SECONDS) == 0
        terminal.wait_for("nothing to change")

    assert not (vibe.workdir / "calls").exists(), "VISUAL comes first"
    assert snapshot(vibe.home / "plans") == before


def test_what_is_wrong_is_said_and_the_editor_opened_again_with_what_was_written(
    vibe: VibeCommand, paused: str
) -> None:
    editor = """
    case $(wc -l < calls) in
      1) sed -i 's/"mode": "run"/"mode": "walk"/' "$2" ;;
      2) grep -q walk "$2" && sed -i 's/walk/test/' "$2" ;;
    esac
    """
    with Terminal(100, 30) as terminal, editing(vibe, terminal, paused, editor) as process:
        terminal.wait_for("'walk'")
        terminal.wait_for("Enter opens the editor again")
        terminal.type("\n")
        assert process.wait(SECONDS) == 0
        terminal.wait_for("1 change made")

    assert calls(vibe) == 2


def test_what_was_written_is_not_lost_if_it_cannot_be_saved(vibe: VibeCommand, paused: str) -> None:
    editor = """
    cd "$VIBE_HOME"/plans/*-*
    case $(wc -l < "$OLDPWD/calls") in
      1) sed -i 's/"mode": "run"/"mode": "test"/' "$2"; mv lock away; mkdir lock ;;
      2) rmdir lock; mv away lock ;;
    esac
    """
    with Terminal(200, 30) as terminal, editing(vibe, terminal, paused, editor) as process:
        terminal.wait_for("Enter opens the editor again")
        terminal.type("\n")
        assert process.wait(SECONDS) == 0
        terminal.wait_for("1 change made")

    assert calls(vibe) == 2


@pytest.mark.parametrize(
    ("editor", "said"),
    [("exit 3", "exit code 3"), ("rm -f $2; kill -9 $$", "nothing was changed"), (": > $2", "was not changed")],
)
def test_giving_up_changes_nothing(vibe: VibeCommand, paused: str, editor: str, said: str) -> None:
    before = snapshot(vibe.home / "plans")
    with Terminal(200, 30) as terminal, editing(vibe, terminal, paused, editor) as process:
        if said == "was not changed":
            terminal.wait_for("Enter opens the editor again")
            terminal.type("q\n")
        assert process.wait(SECONDS) in {2, 3}
        terminal.wait_for(said)

    assert snapshot(vibe.home / "plans") == before


def test_an_editor_that_is_not_there_is_one_sentence(vibe: VibeCommand, paused: str) -> None:
    for command in ("no-such-editor", "'"):
        with Terminal(200, 30) as terminal, editing(vibe, terminal, paused, "true", VISUAL=command) as process:
            assert process.wait(SECONDS) == 3
            terminal.wait_for("set VISUAL or EDITOR to another")


def test_a_plan_as_the_document_has_it_is_what_the_editor_shows(vibe: VibeCommand, paused: str) -> None:
    with Terminal(100, 30) as terminal, editing(vibe, terminal, paused, 'cp "$2" seen.json') as process:
        assert process.wait(SECONDS) == 0

    written = json.loads((vibe.workdir / "plan.json").read_text())
    assert json.loads((vibe.workdir / "seen.json").read_text()) == written


NEEDY = command_step("train", "echo trained", needs={"gpu": 1})
MISSING = "step 'train' needs gpu=1, and this machine has"


def edit_file(vibe: VibeCommand, plan_id: str, *steps: dict[str, object]) -> Finished:
    """Run ``vibe plan edit --file`` with these steps."""
    plan = vibe.workdir / "edited.json"
    plan.write_text(json.dumps({"version": 1, "goal": "Try something", "steps": steps}))
    return vibe("plan", "edit", plan_id, "--file", str(plan))


def test_a_step_whose_needs_nothing_meets_is_refused_while_the_plan_runs_and_when_it_rests(
    vibe: VibeCommand, write_plan: WritePlan
) -> None:
    steps = [
        command_step("wait", "until test -e go; do sleep 0.05; done"),
        command_step("end", "false", depends_on=["wait"]),
    ]
    running = vibe.start("plan", "run", write_plan(*steps))
    until(lambda: any("active (process" in vibe("plan", "status", each).out for each in vibe.plan_ids()))
    [plan_id] = vibe.plan_ids()
    refused = edit_file(vibe, plan_id, *steps, NEEDY)
    (vibe.workdir / "go").touch()
    running.communicate()
    resting = edit_file(vibe, plan_id, *steps, NEEDY)

    assert (refused.code, resting.code) == (2, 2)
    assert MISSING in refused.err
    assert MISSING in resting.err
    assert len(vibe("plan", "show", plan_id, "--output", "json").document["steps"]) == 2


def test_the_needs_of_what_is_left_out_do_not_matter(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(command_step("a", "true"), NEEDY)

    assert vibe("plan", "run", "--only", "a", "--dry-run", plan).code == 0
    assert vibe("plan", "run", "--only", "a", plan).code == 0
    assert MISSING in vibe("plan", "run", plan).err
