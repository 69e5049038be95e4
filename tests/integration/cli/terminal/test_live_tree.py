"""LiveTree on a real terminal: what stays on the screen, what goes, and what it costs."""

from __future__ import annotations

import os
import pty
import sys
import termios
import time
from collections.abc import Generator
from contextlib import contextmanager
from errno import EIO
from io import StringIO
from time import perf_counter
from typing import TextIO

import pytest

from ipc.events import (
    AssistantDeltaEvent,
    ErrorEvent,
    Event,
    PlanStartedEvent,
    PlanStepUpdateEvent,
    StepOutline,
    WarningEvent,
)
from tests.fakes.terminal import Terminal, shown
from tests.fakes.waiting import until
from vibe.cli.terminal.live_tree import LiveTree

SHOW_CURSOR, HIDE_CURSOR = "\x1b[?25h", "\x1b[?25l"


@contextmanager
def stream(terminal: Terminal) -> Generator[TextIO]:
    with open(terminal.slave, "w", encoding="utf-8", closefd=False) as out:
        yield out


def plan(count: int) -> list[Event]:
    steps = tuple(StepOutline(id=f"s{n}", title=f"Step {n}", mode="code") for n in range(count))
    first = PlanStepUpdateEvent(step_id="s0", title="Step 0", status="in_progress", previous="pending", ts=time.time())
    return [PlanStartedEvent(goal="The goal", steps=steps, ts=time.time()), first]


def publish(tree: LiveTree, *events: Event) -> None:
    for event in events:
        tree.publish(event)


def test_the_picture_comes_and_goes_and_what_was_above_stays() -> None:
    with Terminal() as terminal, stream(terminal) as out:
        out.write("before\n")
        with LiveTree(out, environ={"TERM": "xterm"}) as tree:
            publish(tree, *plan(3))
            terminal.wait_for("The goal")
            terminal.wait_for("0/3 · ")
        out.write("after\n")
        out.flush()
        terminal.wait_for("after")
        assert [line for line in terminal.screen() if line] == ["before", "after"]
        assert terminal.sent().rindex(SHOW_CURSOR) > terminal.sent().rindex(HIDE_CURSOR)


def test_warnings_and_errors_stay_once_each_in_order() -> None:
    with Terminal() as terminal, stream(terminal) as out:
        with LiveTree(out, environ={"TERM": "xterm"}) as tree:
            publish(tree, *plan(2), WarningEvent(code="w", message="care\x1b[2Jful", subagent_step_id="s0"))
            terminal.wait_for("warning: s0: careful")
            terminal.wait_for("0/2")
            publish(tree, ErrorEvent(code="e", message="broken at the very end"))
        out.write("after\n")
        out.flush()
        terminal.wait_for("after")
        assert [line for line in terminal.screen() if line] == [
            "warning: s0: careful",
            "error: broken at the very end",
            "after",
        ]


def test_an_exception_passes_and_gives_the_cursor_back() -> None:
    def interrupted(terminal: Terminal, out: TextIO) -> None:
        with LiveTree(out, environ={"TERM": "xterm"}) as tree:
            publish(tree, *plan(2))
            terminal.wait_for("The goal")
            raise KeyboardInterrupt

    with Terminal() as terminal, stream(terminal) as out:
        with pytest.raises(KeyboardInterrupt):
            interrupted(terminal, out)
        out.write("after\n")
        out.flush()
        terminal.wait_for("after")
        assert [line for line in terminal.screen() if line] == ["after"]
        assert terminal.sent().rindex(SHOW_CURSOR) > terminal.sent().rindex(HIDE_CURSOR)


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (30, 6)])
def test_a_plan_larger_than_the_screen_never_scrolls_a_picture_into_the_history(columns: int, rows: int) -> None:
    with (
        Terminal(columns, rows) as terminal,
        stream(terminal) as out,
        LiveTree(out, environ={"TERM": "xterm"}) as tree,
    ):
        publish(tree, *plan(200))
        until(lambda: terminal.sent().count("0/200") >= 4)
        with tree.pause():  # so that no frame is half drawn
            pass
        last = shown(terminal.sent()[: terminal.sent().rindex("0/200")])
        assert len(last) <= rows
        assert sum("The goal" in line for line in last) == 1
        assert max(map(len, last)) <= columns


def test_it_grows_and_shrinks_with_the_window() -> None:
    with Terminal(80, 24) as terminal, stream(terminal) as out, LiveTree(out, environ={"TERM": "xterm"}) as tree:
        publish(tree, *plan(40))
        terminal.wait_for("s9")
        termios.tcsetwinsize(terminal.slave, (8, 80))
        until(lambda: not any(" s9 " in line for line in terminal.screen()))


def test_no_colour_is_used_where_none_is_wanted() -> None:
    with Terminal() as terminal, stream(terminal) as out:
        with LiveTree(out, environ={"TERM": "xterm", "NO_COLOR": "1"}) as tree:
            publish(tree, *plan(2), WarningEvent(code="w", message="careful"))
            terminal.wait_for("0/2")
        colours = [part for part in terminal.sent().split("\x1b[") if part[:2] in {"31", "32", "33", "34", "36", "1;"}]
        assert not colours


def test_publishing_costs_next_to_nothing() -> None:
    event = AssistantDeltaEvent(message_id="1", text="some words of an answer", subagent_step_id="s0")
    with Terminal() as terminal, stream(terminal) as out, LiveTree(out, environ={"TERM": "xterm"}) as tree:
        publish(tree, *plan(100))
        rounds: list[float] = []
        for _ in range(20):
            begun = perf_counter()
            for _ in range(1_000):
                tree.publish(event)
            rounds.append((perf_counter() - begun) / 1_000)
        assert min(rounds) < 50e-6
        terminal.wait_for("words of an answer")


def test_a_terminal_that_goes_away_ends_the_drawing_only() -> None:
    class Leaving(StringIO):
        gone = False
        refused = 0

        def write(self, text: str) -> int:
            if self.gone:
                Leaving.refused += 1
                raise OSError(EIO, "gone")
            return super().write(text)

    out = Leaving()
    with LiveTree(out, environ={"TERM": "xterm"}) as tree:
        publish(tree, *plan(2))
        until(lambda: "0/2" in out.getvalue())
        Leaving.gone = True
        publish(tree, WarningEvent(code="w", message="nobody reads this"))
        until(lambda: Leaving.refused > 0)
        with tree.pause():
            pass
    assert "nobody" not in out.getvalue()


def test_a_terminal_without_unicode_shows_what_it_can() -> None:
    with Terminal() as terminal, open(terminal.slave, "w", encoding="ascii", closefd=False) as out:
        with LiveTree(out, environ={"TERM": "xterm"}) as tree:
            publish(tree, *plan(2))
            terminal.wait_for("0/2 ? 0 s")
        assert out.errors == "strict"


def test_keys_are_not_echoed_into_the_picture_and_echo_comes_back() -> None:
    program = (
        "import sys, time\n"
        "from vibe.cli.terminal.live_tree import LiveTree\n"
        "with LiveTree(sys.stdout, environ={'TERM': 'xterm'}):\n"
        "    print('ready', flush=True)\n"
        "    sys.stdin.readline()\n"
        "print('gone', flush=True)\n"
        "sys.stdin.readline()\n"
    )
    child, master = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, "-c", program])  # noqa: S606  a child with a terminal of its own
    sent = read_until(master, "", "ready")
    os.write(master, b"secret\n")
    sent = read_until(master, sent, "gone")
    os.write(master, b"public\n")
    sent = read_until(master, sent, "public")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(master)
    assert "secret" not in sent
    assert any("gone" in line for line in shown(sent))


def read_until(master: int, sent: str, text: str) -> str:
    while text not in sent:
        sent += os.read(master, 4096).decode()
    return sent
