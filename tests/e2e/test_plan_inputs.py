"""Values for the inputs of a plan, on their way from the command line to prompts, commands and records.

Covers ``planner.plan``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.conftest import VibeCommand, command_step
from tests.fakes.terminal import Terminal

WritePlan = Callable[..., str]

INPUTS = [{"name": "n", "type": "integer"}, {"name": "who-is", "description": "Who asks"}]
HOSTILE = "$(touch planted); `touch planted` \"'${inputs.n}\n-x"


def both(vibe: VibeCommand, write_plan: WritePlan) -> str:
    """Write a plan with a command and an agent with a check. The command and the check both write down their inputs."""
    vibe.replay({"agents": {"ask": {"turns": [{"text": "done"}]}}})
    return write_plan(
        command_step("say", 'printf %s "$VIBE_INPUT_WHO_IS" > said'),
        {
            "id": "ask",
            "title": "Ask ${inputs.who-is}",
            "mode": "code",
            "depends_on": ["say"],
            "prompt": "Do it ${inputs.n} times for ${inputs.who-is}",
            "verify": ['printf %s "$VIBE_INPUT_N" > checked'],
        },
        inputs=INPUTS,
        goal="Ask ${inputs.n} times",
    )


@pytest.mark.parametrize("executor", ["local", "process"])
@pytest.mark.parametrize("sandbox", ["auto", "required"])
def test_values_reach_prompts_and_commands_as_data(
    vibe: VibeCommand, write_plan: WritePlan, executor: str, sandbox: str
) -> None:
    plan = both(vibe, write_plan)
    config = vibe.home / "config.toml"
    config.write_text(f'{config.read_text()}\n[sandbox]\nmode = "{sandbox}"\n')

    assert "input who-is (string): must be given" in vibe("plan", "show", plan).out

    ended = vibe(
        *("plan", "run", plan, "--with", "n=3", "--with", f"who-is={HOSTILE}"),
        *("--executor", executor, "--auto-approve", "--output", "json"),
    )

    assert ended.code == 0
    assert (vibe.workdir / "said").read_text() == HOSTILE
    assert (vibe.workdir / "checked").read_text() == "3"
    assert not list(vibe.workdir.glob("**/planted"))
    [folder] = (vibe.home / "plans").glob("*-*")
    said = json.loads((folder / "steps" / "ask" / "messages.jsonl").read_text().splitlines()[0])["content"]
    assert f"Do it 3 times for {HOSTILE}" in said
    assert "# Goal of the whole plan\nAsk 3 times" in said
    settings = json.loads((folder / "run.json").read_text())
    assert (settings["goal"], settings["inputs"]) == ("Ask 3 times", {"n": 3, "who-is": HOSTILE})


MISSING = (
    "vibe: plan plan: input 'n' (integer) is missing: give --with n=VALUE; "
    "input 'who-is' (string) is missing: give --with who-is=VALUE"
)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), MISSING),
        (
            ("--with", "n=x", "--with", "who-is=a"),
            "vibe: plan plan: input 'n': 'x' is not an integer; write a whole number, such as 3",
        ),
        (
            ("--with", "n=1", "--with", "who-is=a", "--with", "m=1"),
            "vibe: plan plan: unknown input 'm'; its inputs: n, who-is",
        ),
    ],
)
@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_what_is_missing_unknown_or_of_another_type_is_told_and_nothing_is_written(
    vibe: VibeCommand, write_plan: WritePlan, words: tuple[str, ...], said: str, dry: tuple[str, ...]
) -> None:
    ended = vibe("plan", "run", both(vibe, write_plan), *words, *dry)
    assert (ended.code, ended.err.strip()) == (2, said)
    assert not (vibe.home / "plans").exists()


@pytest.mark.parametrize("flag", ["n", "=3"])
def test_a_flag_without_name_or_value_is_no_value(vibe: VibeCommand, write_plan: WritePlan, flag: str) -> None:
    ended = vibe("plan", "run", both(vibe, write_plan), "--with", flag)
    assert ended.code == 2
    assert f"--with {flag}: write it as --with NAME=VALUE" in ended.err
    twice = vibe("plan", "run", "plan.json", "--with", "n=1", "--with", "n=2")
    assert (twice.code, "--with n is given twice" in twice.err) == (2, True)


def test_a_person_at_the_terminal_is_asked_for_what_is_missing(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = both(vibe, write_plan)
    with Terminal(100, 40) as terminal, vibe.on(terminal, "plan", "run", plan, "--auto-approve") as process:
        terminal.wait_for("n (integer)")
        terminal.type("many\n")
        terminal.wait_for("'many' is not an integer")
        terminal.type("3\n")
        terminal.wait_for("who-is (string) Who asks")
        terminal.type("Ann\n")
        assert process.wait(timeout=120) == 0
    assert (vibe.workdir / "said").read_text() == "Ann"


def test_a_resumed_plan_keeps_its_values(vibe: VibeCommand, write_plan: WritePlan) -> None:
    command = 'echo "$VIBE_INPUT_N" >> log; test -e go'
    plan = write_plan(command_step("a", command, on_failure="ask"), inputs=INPUTS[:1])
    assert vibe("plan", "run", plan, "--with", "n=3").code != 0
    (vibe.workdir / "go").touch()
    [plan_id] = vibe.plan_ids()
    assert vibe("plan", "decide", plan_id, "failed:a:1", "retry").code == 0

    other = vibe("plan", "run", plan, "--resume", "--with", "n=4", "--dry-run")
    assert other.code == 2
    assert vibe("plan", "run", plan, "--resume").code == 0

    assert (vibe.workdir / "log").read_text() == "3\n3\n"
    assert vibe.plan_ids() == [plan_id]


def test_a_plan_with_other_values_is_another_run(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(command_step("a", "test $VIBE_INPUT_N -gt 3", on_failure="ask"), inputs=INPUTS[:1])
    assert vibe("plan", "run", plan, "--with", "n=3").code != 0
    assert vibe("plan", "run", plan, "--resume", "--with", "n=4").code == 0
    assert len(vibe.plan_ids()) == 2


def test_a_result_is_reused_while_the_inputs_it_used_are_the_same(vibe: VibeCommand, write_plan: WritePlan) -> None:
    steps = [
        command_step("a", 'echo "a$VIBE_INPUT_N" >> log'),
        command_step("b", 'echo "b$VIBE_INPUT_WHO_IS" >> log', depends_on=[]),
    ]
    plan = write_plan(*steps, inputs=INPUTS)
    assert vibe("plan", "run", plan, "--with", "n=1", "--with", "who-is=x", "--max-parallel", "1").code == 0
    [first] = vibe.plan_ids()

    again: Any = vibe("plan", "run", plan, "--with", "n=1", "--with", "who-is=y", "--reuse", first)

    assert again.code == 0
    assert (vibe.workdir / "log").read_text().split() == ["a1", "bx", "by"]
    assert "1 of 2 steps reused" in again.out + again.err
    assert "inputs differs" in vibe("plan", "diff", first, vibe.plan_ids()[1]).out


def test_the_file_can_be_edited_while_the_plan_waits(vibe: VibeCommand, write_plan: WritePlan) -> None:
    fields = {"inputs": INPUTS, "goal": "For ${inputs.who-is}"}
    waiting = command_step("a", "test -e go", on_failure="ask", title="Wait for ${inputs.who-is}")
    assert vibe("plan", "run", write_plan(waiting, **fields), "--with", "n=1", "--with", "who-is=${x}").code != 0
    plan = write_plan(waiting, command_step("b", "touch b", title="After ${inputs.who-is}"), **fields)

    edited = vibe("plan", "edit", "latest", "--file", plan)

    assert edited.code == 0
    shown = vibe("plan", "show", "latest", "--output", "json").document
    assert [step["title"] for step in shown["steps"]] == ["Wait for ${x}", "After ${x}"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ('["x", "x"]', "items 0 and 1 have the same key, 'x'"),
        ('["x", "y", "z"]', "3 items are more than `at_most` allows, 2"),
        ('["x", ""]', "item 1 has '' at its place, which is not a key"),
    ],
)
def test_a_list_that_its_step_could_not_take_is_refused_before_anything_runs(
    vibe: VibeCommand, write_plan: WritePlan, given: str, said: str
) -> None:
    plan = write_plan(
        command_step("first", "touch begun"),
        command_step("each", "true", depends_on=["first"], for_each={"input": "files", "at_most": 2}),
        inputs=[{"name": "files", "type": "list"}],
    )

    ended = vibe("plan", "run", plan, "--with", f"files={given}")

    assert ended.code == 2
    assert f"input 'files', the list of step 'each': {said}" in ended.err
    assert not (vibe.workdir / "begun").exists()
