"""A program that runs a plan is killed. The plan is resumed in the program, or on the command line where possible.

Covers ``vibe.sdk``.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Finished, VibeCommand
from tests.fakes.waiting import until

PROGRAM = '''
import sys, time
from pathlib import Path

from vibe.sdk import Decision, NotCompleted, Option, Plan, Step, StepTask, resume_plan, run_plan, tool

FUNCTIONS = ("s05", "s12")


def note(text):
    with open("log", "a") as log:
        log.write(f"{text}\\n")


def wait_at(step):
    if step == sys.argv[1]:
        Path("waits").touch()
        time.sleep(600)


def count(task: StepTask) -> dict[str, int]:
    note(task.step_id)
    wait_at(task.step_id)
    return {"lines": len(Path("log").read_text().split())}


async def tell(task: StepTask) -> str:
    note(task.step_id)
    wait_at(task.step_id)
    return f"told of {len(task.inputs)}"


@tool
def lookup(word: str) -> str:
    """Look a word up."""
    note(f"looked up {word}")
    return f"{word}: a word"


def decide(event):
    note(f"decided {event.decision_id}")
    wait_at("decision")
    return "go"


def step(number):
    name, before = f"s{number:02}", [f"s{number - 1:02}"] if number > 1 else []
    settings = {}
    if name == "s08":
        settings = {"mode": "code", "prompt": "Look up vibe."}
    elif name in FUNCTIONS:
        settings = {"mode": "code"}
    else:
        settings = {"mode": "run", "command": f"echo {name} >> log"}
    if name == "s15":
        settings["decision"] = "ship"
    if name == "s17":
        settings["command"] = "touch waits; while [ ! -e go ]; do sleep 0.05; done; echo s17 >> log"
    return Step(id=name, title=name, depends_on=before, **settings)


ship = Decision(id="ship", question="Ship?", options=[Option(id="go", label="Go"), Option(id="no", label="No")])
plan = Plan(version=1, goal="Twenty steps", steps=[step(number) for number in range(1, 21)], decisions=[ship])
options = {"functions": {"s05": count, "s12": tell}, "decide": decide, "tools": [lookup]}
if len(sys.argv) > 2:
    ended = resume_plan(sys.argv[2], **options).wait()
else:
    ended = run_plan(plan, **options).wait()
print(ended.status, ended.steps["s05"].output, ended.steps["s12"].summary)
'''
NAMES = [f"s{number:02}" for number in range(1, 21)]
WHOLE = [*NAMES[:7], "looked up vibe", *NAMES[8:14], "decided ship", *NAMES[14:]]
"""All notes. The agent of the eighth step notes its look-up."""


@pytest.fixture
def program(vibe: VibeCommand) -> Path:
    """Write the program into its folder, script a model that calls its tool, and return the program's path."""
    vibe.replay({
        "agents": {
            "s08": {
                "turns": [
                    {"tool_calls": [{"name": "lookup", "arguments": {"word": "vibe"}}]},
                    {"text": "It is a word."},
                ]
            }
        }
    })
    path = vibe.workdir / "program.py"
    path.write_text(PROGRAM)
    return path


def killed_at(vibe: VibeCommand, program: Path, step: str, *words: str) -> str:
    """Run the program until a step waits, kill it, and return the plan's id."""
    argv = [sys.executable, str(program), step, *words]
    process = subprocess.Popen(argv, cwd=vibe.workdir, env=vibe.variables(), start_new_session=True)
    vibe.running.append(process)
    until(lambda: (vibe.workdir / "waits").exists() or process.poll() is not None)
    assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    (vibe.workdir / "waits").unlink()
    return vibe.plan_ids()[-1]


def ran(vibe: VibeCommand, program: Path, *words: str) -> Finished:
    return vibe.run([sys.executable, str(program), "nowhere", *words])


def noted(vibe: VibeCommand) -> list[str]:
    return (vibe.workdir / "log").read_text().splitlines()


def folder_of(vibe: VibeCommand, plan_id: str) -> dict[str, bytes]:
    """Return the files of the plan's folder."""
    folder = vibe.home / "plans" / plan_id
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_plan_goes_on_in_its_program_while_a_step_of_the_program_is_open(vibe: VibeCommand, program: Path) -> None:
    plan_id = killed_at(vibe, program, "s05")
    before = folder_of(vibe, plan_id)

    for words in (("resume", plan_id), ("resume", plan_id, "--executor", "process")):
        refused = vibe.process("plan", *words)
        assert (refused.code, refused.out) == (2, "")
        said = f"vibe: plan {plan_id}: a program does step 's05': resume it there, with functions=\n"
        assert refused.err == said

    assert folder_of(vibe, plan_id) == before
    assert killed_at(vibe, program, "s12", plan_id) == plan_id
    assert "a program does step 's12'" in vibe("plan", "resume", plan_id).err
    (vibe.workdir / "go").touch()
    ended = ran(vibe, program, plan_id)

    assert (ended.code, ended.err) == (0, "")
    assert ended.out == "completed {'lines': 6} told of 1\n"
    again = [*WHOLE[:5], "s05", *WHOLE[5:12], "s12", *WHOLE[12:]]
    assert noted(vibe) == again


def test_a_plan_goes_on_anywhere_once_its_program_has_done_its_part(vibe: VibeCommand, program: Path) -> None:
    plan_id = killed_at(vibe, program, "s17")  # a command that waits
    (vibe.workdir / "go").touch()

    resumed = vibe("plan", "resume", plan_id, "--output", "json")

    assert (resumed.code, resumed.document["outcome"]) == (0, "completed")
    steps: dict[str, Any] = {step["id"]: step for step in resumed.document["steps"]}
    assert steps["s05"]["output"] == {"lines": 5}
    assert sorted(noted(vibe)) == sorted(WHOLE)
    settings = json.loads((vibe.home / "plans" / plan_id / "run.json").read_text())
    assert (settings["functions"], settings["executor"]) == (["s05", "s12"], "local")


FAULTY = """
from vibe.sdk import Plan, Step, StepResult, StepTask, run_plan


class Faulty:
    async def run(self, task: StepTask, stop: object) -> StepResult:
        raise RuntimeError("boom")


def function(task: StepTask) -> None:
    raise ValueError("bang")


steps = [Step(id=name, title=name, mode="code") for name in ("a", "b")]
plan = Plan(version=1, goal="g", steps=steps)
ended = run_plan(plan, executor=Faulty(), functions={"b": function}, check=False).wait()
print([step.detail for step in ended.steps.values()])
"""


def test_what_goes_wrong_in_a_program_s_steps_is_a_result_and_not_on_its_streams(vibe: VibeCommand) -> None:
    (vibe.workdir / "faulty.py").write_text(FAULTY)

    ended = vibe.run([sys.executable, str(vibe.workdir / "faulty.py")])

    assert ended == Finished(0, "['RuntimeError: boom', 'ValueError: bang']\n", "")
