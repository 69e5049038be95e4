"""Questions of agents and decisions of plans, on a real terminal."""

from __future__ import annotations

import os
import pty
import re
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest

from ipc.events import (
    ApprovalRequestEvent,
    PlanDecisionEvent,
    PlanStartedEvent,
    PlanStepUpdateEvent,
    QuestionEvent,
    StepOutline,
)
from tests.fakes.terminal import Terminal
from vibe.cli.environment import CliEnvironment
from vibe.cli.terminal.live_tree import LiveTree
from vibe.cli.terminal.person import TerminalPerson
from vibe.cli.terminal.prompt_queue import PromptQueue
from vibe.core.tools.questions import Choice, Question, QuestionAnswer

AUTH = Question(
    question="Which one?",
    header="Auth",
    options=[Choice(label="JWT", description="stateless"), Choice(label="Cookies")],
)
TESTS = Question(question="Which tests?", options=[Choice(label="unit"), Choice(label="e2e")], multi_select=True)
DATABASE = PlanDecisionEvent(
    decision_id="db",
    question="Which database?",
    options=("pg", "sqlite"),
    labels=("PostgreSQL", "SQLite"),
    descriptions=("a server", ""),
    default=("sqlite",),
)
APPROVAL = ApprovalRequestEvent(
    request_id="r", tool_call_id="c", tool="bash", arguments={"command": "ls"}, summary="ls", rule="ask", reason=""
)
PROMPT = "]  > "
Result = TypeVar("Result")


@dataclass(frozen=True)
class Person:
    terminal: Terminal
    tree: LiveTree
    queue: PromptQueue

    async def answers(self, ask: Callable[[], Coroutine[Any, Any, Result]], *typed: str) -> Result:
        """Return the result of a question, typing each of these at a prompt of its own."""
        seen = self.terminal.sent().count("  > ")
        async with anyio.create_task_group() as group:

            async def type_all() -> None:
                for number, keys in enumerate(typed, start=seen + 1):
                    await self.terminal.see("  > ", number)
                    self.terminal.type(keys)

            group.start_soon(type_all)
            with anyio.fail_after(120):
                return await ask()
        raise AssertionError


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    with (
        Terminal(100, 40) as terminal,
        open(terminal.slave, "w", encoding="utf-8", closefd=False) as out,
        open(terminal.slave, encoding="utf-8", closefd=False) as keys,
        LiveTree(out, environ={"TERM": "xterm"}) as tree,
    ):
        env = CliEnvironment(home=tmp_path, cwd=tmp_path, environ={}, stdout=out, stderr=out, stdin=keys)
        yield Person(terminal=terminal, tree=tree, queue=PromptQueue(env, tree))


@pytest.mark.parametrize(
    ("typed", "answers"),
    [
        (("2\n", "2,1\n"), [("Cookies", False), ("unit, e2e", False)]),
        (("neither\n", "1\n"), [("neither", True), ("unit", False)]),
        (("3\n", "by hand\n", "2\n"), [("by hand", True), ("e2e", False)]),
        (("9\n", "1\n", "1\n"), [("JWT", False), ("unit", False)]),
        (("\n",), None),
        (("1\n", "\x04"), None),
        (("abc\x1b",), None),
    ],
    ids=["numbers", "own words", "other", "asked again", "an empty line", "end of input", "escape"],
)
async def test_questions_are_answered_one_after_the_other(
    person: Person, typed: tuple[str, ...], answers: list[tuple[str, bool]] | None
) -> None:
    ask = TerminalPerson(person.queue).answer

    given = await person.answers(lambda: ask([AUTH, TESTS]), *typed)

    assert (given and [(answer.answer, answer.is_other) for answer in given]) == answers


async def test_an_arrow_key_is_not_the_escape_key(person: Person) -> None:
    ask = TerminalPerson(person.queue).answer

    given = await person.answers(lambda: ask([AUTH]), "own\x1b[D words\n")

    assert given == [QuestionAnswer(question="Which one?", answer="own words", is_other=True)]


async def test_the_person_sees_whose_question_it_is(person: Person) -> None:
    for event in (
        PlanStartedEvent(goal="g", steps=(StepOutline(id="a", title="Log people in", mode="code"),)),
        PlanStepUpdateEvent(step_id="a", title="Log people in", status="in_progress", previous="pending"),
        QuestionEvent(request_id="q", questions=(), subagent_step_id="a"),
    ):
        person.tree.publish(event)
    ask = TerminalPerson(person.queue, person.tree.asking_step).answer

    await person.answers(lambda: ask([AUTH], "q"), "1\n")

    screen = person.terminal.screen()
    assert "? a question to you  for step a" in screen
    assert "  [Auth] Which one?" in screen
    assert "   1) JWT: stateless" in screen


@pytest.mark.parametrize(
    ("typed", "options"),
    [("1\n", ["pg"]), ("\n", ["sqlite"]), ("\x1b", None), ("\x04", None)],
    ids=["a number", "the default", "not now", "end of input"],
)
async def test_a_decision_is_taken(person: Person, typed: str, options: list[str] | None) -> None:
    decide = TerminalPerson(person.queue).decide

    assert await person.answers(lambda: decide(DATABASE), typed) == options


async def test_the_time_left_counts_down_while_the_person_types(person: Person) -> None:
    decide = TerminalPerson(person.queue).decide
    decision = PlanDecisionEvent(
        decision_id="db", question="?", options=("a", "b"), default=("b",), timeout_seconds=500, ts=time.time()
    )

    def times() -> list[str]:
        return re.findall(r"in (\d:\d\d): choosing \w+", person.terminal.sent())

    async def type_slowly() -> None:
        await person.terminal.see(PROMPT)  # anything typed earlier would appear before it
        person.terminal.type("1")
        while len(set(times())) < 3:  # noqa: ASYNC110  the reader is a thread
            await anyio.sleep(0.01)
        person.terminal.type("\n")

    async with anyio.create_task_group() as group:
        group.start_soon(type_slowly)
        with anyio.fail_after(120):
            assert await decide(decision) == ["a"]
    assert times() == sorted(times(), reverse=True)
    screen = person.terminal.screen()
    assert sum(": choosing " in line for line in screen) == 1
    assert [line.endswith("> 1") for line in screen if PROMPT in line] == [True]


async def test_a_line_above_stays_once_enter_was_pressed(person: Person) -> None:
    async with person.queue.conversation("above\n") as conversation:
        await conversation.say("the time left\n[a b]  > ")
        await conversation.change_line(0, "less time left")
        await person.terminal.see("less time left")
        person.terminal.type("1\n")
        await person.terminal.see("1\r\n")  # the terminal's own echo
        await conversation.change_line(0, "no time left")
        await conversation.say("after\n")
        await person.terminal.see("after")
        assert await conversation.answer("") == "1"

    assert "no time left" not in person.terminal.sent()
    assert "[a b]  > 1" in person.terminal.screen()


async def test_one_question_at_a_time_whatever_kind_it_is(person: Person) -> None:
    ask = TerminalPerson(person.queue).answer
    approver = TerminalPerson(person.queue, person.tree.asking_step)
    decide = TerminalPerson(person.queue).decide
    order: list[str] = []

    async def noted(name: str, wanted: Coroutine[Any, Any, Any]) -> None:
        await wanted
        order.append(name)

    async with anyio.create_task_group() as group:
        group.start_soon(noted, "question", ask([AUTH]))
        await person.terminal.see(PROMPT)
        group.start_soon(noted, "approval", approver.approve(APPROVAL))
        with anyio.fail_after(120):
            await anyio.wait_all_tasks_blocked()
            assert "? run" not in person.terminal.sent()
            person.terminal.type("1\n")
            await person.terminal.see("or: n WHY  > ")
            group.start_soon(noted, "decision", decide(DATABASE))
            await anyio.wait_all_tasks_blocked()
            assert "Which database" not in person.terminal.sent()
            person.terminal.type("y\n")
            await person.terminal.see(PROMPT, 2)
            person.terminal.type("1\n")
    assert order == ["question", "approval", "decision"]


async def test_a_cancelled_question_is_withdrawn_and_the_next_one_asked(person: Person) -> None:
    ask = TerminalPerson(person.queue).answer
    async with anyio.create_task_group() as group:
        group.start_soon(ask, [AUTH])
        await person.terminal.see(PROMPT)
        group.cancel_scope.cancel()

    assert await person.answers(lambda: ask([TESTS]), "1\n") == [QuestionAnswer(question="Which tests?", answer="unit")]


async def test_a_terminal_that_is_gone_declines(tmp_path: Path) -> None:
    class Nothing(StringIO):
        def fileno(self) -> int:
            return -1

    out = Nothing()
    queue = PromptQueue(CliEnvironment(home=tmp_path, cwd=tmp_path, environ={}, stdout=out, stderr=out, stdin=out))
    assert await TerminalPerson(queue).answer([AUTH]) is None
    assert await TerminalPerson(queue).decide(DATABASE) is None


def test_the_terminal_is_as_it_was_after_a_question() -> None:
    program = (
        "import anyio, sys, termios\n"
        "from vibe.cli.terminal.keyboard import Keyboard\n"
        "async def main():\n"
        "    before = termios.tcgetattr(0)\n"
        "    with Keyboard(0, escape=True) as keyboard:\n"
        "        print('ready', flush=True)\n"
        "        print(repr(await keyboard.line()), flush=True)\n"
        "    print('same' if termios.tcgetattr(0) == before else 'changed', flush=True)\n"
        "anyio.run(main)\n"
    )
    child, master = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, "-c", program])  # noqa: S606  a child with a terminal of its own
    read_until(master, "ready")
    os.write(master, b"half a line\x1b")
    sent = read_until(master, "same")
    assert "'\\x1b'" in sent
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(master)


def read_until(master: int, text: str) -> str:
    sent = ""
    while text not in sent:
        sent += os.read(master, 4096).decode()
    return sent
