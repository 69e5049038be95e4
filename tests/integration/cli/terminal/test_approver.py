"""TerminalPerson on a real terminal: every answer, no answer, and one typed too early."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import anyio
import pytest

from ipc.events import ApprovalRequestEvent, PlanStartedEvent, PlanStepUpdateEvent, StepOutline, WarningEvent
from tests.fakes.terminal import Terminal
from vibe.cli.environment import CliEnvironment
from vibe.cli.terminal.live_tree import LiveTree
from vibe.cli.terminal.person import TerminalPerson
from vibe.cli.terminal.prompt_queue import PromptQueue
from vibe.core.tools.ports import ApprovalAnswer

PROMPT = "or: n WHY  > "
REQUEST = ApprovalRequestEvent(
    request_id="r",
    tool_call_id="c",
    tool="bash",
    arguments={"command": "make install"},
    summary="make install",
    rule="permission",
    reason="bash needs your approval",
    covers=("bash: make",),
)


@dataclass(frozen=True)
class Person:
    terminal: Terminal
    tree: LiveTree
    approver: TerminalPerson
    queue: PromptQueue


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    with (
        Terminal() as terminal,
        open(terminal.slave, "w", encoding="utf-8", closefd=False) as out,
        open(terminal.slave, encoding="utf-8", closefd=False) as keys,
        LiveTree(out, environ={"TERM": "xterm"}) as tree,
    ):
        env = CliEnvironment(home=tmp_path, cwd=tmp_path, environ={}, stdout=out, stderr=out, stdin=keys)
        asked = PromptQueue(env, tree)
        yield Person(terminal=terminal, tree=tree, approver=TerminalPerson(asked, tree.asking_step), queue=asked)


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("y\n", ApprovalAnswer(allow=True)),
        ("s\n", ApprovalAnswer(allow=True, scope="session")),
        ("n\n", ApprovalAnswer(allow=False)),
        ("n use the other file\n", ApprovalAnswer(allow=False, reason="use the other file")),
        ("\x04", ApprovalAnswer(allow=False, reason="the user closed the input")),
        ("n dön't\n", ApprovalAnswer(allow=False, reason="dön't")),
    ],
    ids=["once", "session", "no", "no with a reason", "end of input", "not ascii"],
)
async def test_a_person_answers(person: Person, typed: str, answer: ApprovalAnswer) -> None:
    assert await ask(person, typed) == answer


async def test_the_person_sees_what_will_run_for_which_step_and_why_it_is_asked(person: Person) -> None:
    outline = StepOutline(id="a", title="Install it", mode="run")
    for event in (
        PlanStartedEvent(goal="g", steps=(outline,)),
        PlanStepUpdateEvent(step_id="a", title="Install it", status="in_progress", previous="pending"),
        ApprovalRequestEvent(
            request_id="r", tool_call_id="c", tool="bash", arguments={}, rule="ask", subagent_step_id="a"
        ),
    ):
        person.tree.publish(event)
    await ask(person, "n\n")
    screen = "\n".join(person.terminal.screen())
    for text in (
        "? run  for step a",
        "    command: make install",
        "  rule: bash asks",
        "  s or a would allow: make",
    ):
        assert text in screen


async def test_anything_else_is_asked_again(person: Person) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(type_after, person, "sure\n", 1)
        group.start_soon(type_after, person, "\n", 2)
        assert (await ask(person, "y\n", prompts=3)).allow
    assert person.terminal.sent().count("Answer with one of these letters.") == 2


async def test_what_was_typed_before_the_question_approves_nothing(person: Person) -> None:
    person.terminal.type("y\ny\ny")
    await person.terminal.see("y")  # the terminal has echoed it
    assert await ask(person, "n\n") == ApprovalAnswer(allow=False)


async def test_a_second_line_is_no_answer_to_the_next_question(person: Person) -> None:
    assert (await ask(person, "y\ny\n")).allow
    assert not (await ask(person, "n\n", prompts=2)).allow


async def test_a_cancelled_question_is_withdrawn_and_leaves_nothing_behind(person: Person) -> None:
    descriptors = open_descriptors()
    async with anyio.create_task_group() as group:
        group.start_soon(person.approver.approve, REQUEST)
        await person.terminal.see(PROMPT)
        assert len(open_descriptors()) > len(descriptors)
        group.cancel_scope.cancel()
    assert open_descriptors() <= descriptors
    assert (await ask(person, "y\n", prompts=2)).allow


async def test_the_terminal_stays_blocking_for_everyone_else_while_the_question_is_open(person: Person) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(person.approver.approve, REQUEST)
        await person.terminal.see(PROMPT)
        assert os.get_blocking(person.terminal.slave)
        group.cancel_scope.cancel()


async def test_the_tree_is_away_while_the_question_is_open_and_back_after_it(person: Person) -> None:
    outline = StepOutline(id="a", title="Only step", mode="run")
    person.tree.publish(PlanStartedEvent(goal="the goal", steps=(outline,)))
    await person.terminal.see("the goal")
    async with anyio.create_task_group() as group:
        group.start_soon(person.approver.approve, REQUEST)
        await person.terminal.see(PROMPT)
        asked_at = len(person.terminal.sent())
        assert not any("the goal" in line for line in person.terminal.screen())
        drawn = person.terminal.sent().count("the goal")
        person.tree.publish(
            PlanStepUpdateEvent(step_id="a", title="Only step", status="in_progress", previous="pending")
        )
        await anyio.sleep(0.4)  # longer than three frames
        assert person.terminal.sent().count("the goal") == drawn
        assert "\x1b[?25l" not in person.terminal.sent()[asked_at:]
        person.terminal.type("y\n")
        await person.terminal.see("the goal", drawn + 1)


async def test_a_terminal_that_is_gone_is_a_no(tmp_path: Path) -> None:
    class Nothing(StringIO):
        def fileno(self) -> int:
            return -1

    out = Nothing()
    env = CliEnvironment(home=tmp_path, cwd=tmp_path, environ={}, stdout=out, stderr=out, stdin=out)
    tree = LiveTree(out, environ={})
    terminal_less = TerminalPerson(PromptQueue(env, tree), tree.asking_step)
    answer = await terminal_less.approve(REQUEST)
    assert not answer.allow
    assert "terminal" in answer.reason


async def ask(person: Person, typed: str, prompts: int = 1) -> ApprovalAnswer:
    """Ask, and type the answer once the prompt has been shown ``prompts`` times."""
    async with anyio.create_task_group() as group:
        group.start_soon(type_after, person, typed, prompts)
        with anyio.fail_after(120):
            return await person.approver.approve(REQUEST)
    raise AssertionError


async def type_after(person: Person, typed: str, prompts: int) -> None:
    await person.terminal.see(PROMPT, prompts)
    person.terminal.type(typed)


def open_descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))  # noqa: PTH208  only the names


async def test_a_pause_is_said_at_once_while_a_question_is_open(person: Person) -> None:
    said = WarningEvent(code="pausing", message="pausing: answer first")

    async def pause() -> None:
        await person.terminal.see("> ")
        person.queue.publish(said)
        await person.terminal.see("pausing: answer first")
        person.terminal.type("y\n")

    async with anyio.create_task_group() as group:
        group.start_soon(pause)
        assert (await person.approver.approve(REQUEST)).allow
