"""The line above the prompt: activity, time, streamed output and silence, and that it always fits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from rich.cells import cell_len

from ipc import events as e
from ipc.events import Event
from vibe.front.cells import text_of
from vibe.front.working_line import work_of, working_line
from vibe.view.view import View, apply

ID = "chat"


def at(ts: float) -> dict[str, Any]:
    return {"session_id": ID, "ts": ts}


def called(tool: str, ts: float, call_id: str = "1") -> e.ToolCallEvent:
    return e.ToolCallEvent(tool_call_id=call_id, tool=tool, arguments={}, summary=tool, **at(ts))


PROMPT = e.PromptStartedEvent(prompt_id="p", conversation_id=ID, **at(100.0))
ASKED = e.ModelStartedEvent(message_id="1", model="large", context_tokens=1, context_limit=9, **at(100.0))
THOUGHT = e.ReasoningDeltaEvent(message_id="1", text="x" * 400, **at(104.0))
MORE = e.ReasoningDeltaEvent(message_id="1", text="x" * 4_400, **at(129.0))
WRITES = e.AssistantDeltaEvent(message_id="1", text="Hello", **at(104.5))
ARGUMENTS = e.ToolArgumentsEvent(message_id="1", index=0, tool_call_id="1", tool="bash", text="{", **at(104.5))
ANSWERED = e.ModelEndedEvent(message_id="1", model="large", status="ok", **at(105.0))
APPROVAL = e.ApprovalRequestEvent(
    request_id="r", tool_call_id="1", tool="bash", arguments={}, rule="permission", **at(106.0)
)
ALLOWED = e.ApprovalDecisionEvent(request_id="r", decision="allow", by="user", **at(166.0))


@dataclass(frozen=True)
class Case:
    name: str
    events: tuple[Event, ...]
    now: float
    line: str


CASES = [
    Case("at first", (PROMPT,), 101.0, "starting · 1 s"),
    Case("asked", (PROMPT, ASKED), 103.0, "waiting for large · 3 s"),
    Case("thinks", (PROMPT, ASKED, THOUGHT, MORE), 134.0, "thinking · 34 s · ↓1.2k · ~48 tok/s"),
    Case("writes", (PROMPT, ASKED, THOUGHT, WRITES), 105.0, "writing · 5 s · ↓101"),
    Case("writes a call", (PROMPT, ASKED, ARGUMENTS), 105.0, "writing a call · 5 s"),
    Case("falls silent", (PROMPT, ASKED, THOUGHT), 116.0, "thinking · 16 s · ↓100 · nothing for 12 s"),
    Case("was never heard", (PROMPT, ASKED), 110.0, "waiting for large · nothing for 10 s"),
    Case("is done", (PROMPT, ASKED, THOUGHT, ANSWERED), 106.0, "working · 6 s"),
    Case("a command", (PROMPT, ANSWERED, called("bash", 105.0)), 112.0, "bash · 7 s"),
    Case("a silent command", (PROMPT, called("bash", 105.0)), 126.0, "bash · no output for 21 s"),
    Case(
        "a command that printed",
        (PROMPT, called("bash", 105.0), e.ToolStreamEvent(tool_call_id="1", tool="bash", text="a\n", **at(114.0))),
        126.0,
        "bash · 21 s · no output for 12 s",
    ),
    Case("a tool of which nothing is heard", (PROMPT, called("task", 105.0)), 205.0, "task · 1:40"),
    Case("some", (PROMPT, called("read_file", 105.0), called("grep", 106.0, "2")), 107.0, "read and 1 more · 2 s"),
    Case("a person is asked", (PROMPT, called("bash", 105.0), APPROVAL), 120.0, ""),
    Case(
        "a person is asked about one of two",
        (PROMPT, called("bash", 105.0), APPROVAL, called("read_file", 118.0, "2")),
        120.0,
        "read · 2 s",
    ),
    Case("a question waits for its turn", (PROMPT, called("ask_user_question", 105.0)), 120.0, ""),
    Case("a person has said yes", (PROMPT, called("bash", 105.0), APPROVAL, ALLOWED), 168.0, "bash · 2 s"),
    Case(
        "at rest",
        (PROMPT, e.PromptEndedEvent(prompt_id="p", conversation_id=ID, outcome="completed", **at(109.0))),
        110.0,
        "",
    ),
]


def shown(events: tuple[Event, ...], now: float, cells: int = 100) -> str:
    view = View()
    for event in events:
        apply(view, event)
    assert view.main is not None
    work = work_of(view.main)
    return "" if work is None else text_of(working_line(work, now, cells, 0))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_line(case: Case) -> None:
    line = shown(case.events, case.now)
    if case.line:
        assert line.startswith("⠋ ")
        is_command = case.line.startswith("bash")
        assert line.endswith("  Esc stops · F8 to the background" if is_command else "  Esc stops")
    assert line.removeprefix("⠋ ").partition("  Esc stops")[0].rstrip() == case.line


def test_silence_alone_has_the_colour_of_what_needs_a_person() -> None:
    view = View()
    for event in (PROMPT, ASKED, THOUGHT):
        apply(view, event)
    assert view.main is not None
    work = work_of(view.main)
    assert work is not None
    styles = {now: [style for _, style in working_line(work, now, 80, 0)] for now in (113.9, 114.0)}
    assert "warn" not in styles[113.9]
    assert styles[114.0].count("warn") == 1


@pytest.mark.parametrize(
    ("cells", "line"),
    [
        (50, "⠋ thinking · 34 s · ↓1.2k · ~48 tok/s   Esc stops"),
        (40, "⠋ thinking · 34 s · ↓1.2k      Esc stops"),
        (30, "⠋ thinking · 34 s    Esc stops"),
        (20, "⠋ thinking · 34 s"),
        (12, "⠋ thinking"),
        (7, "⠋ thin…"),
    ],
)
def test_what_is_least_missed_goes_where_there_is_no_room(cells: int, line: str) -> None:
    assert " ".join(shown((PROMPT, ASKED, THOUGHT, MORE), 134.0, cells).split()) == " ".join(line.split())


@pytest.mark.parametrize("cells", [1, 2, 5, 20, 40, 80, 200])
@pytest.mark.parametrize("events", [(PROMPT, ASKED), (PROMPT, ASKED, THOUGHT, MORE)])
def test_it_is_exactly_as_wide_as_there_is_room(cells: int, events: tuple[Event, ...]) -> None:
    view = View()
    for event in (*events, called("\x1b[2J[red]\u202e日本語\n", 130.0)):
        apply(view, event)
    assert view.main is not None
    work = work_of(view.main)
    assert work is not None
    for now in (131.0, 200.0):
        line = working_line(work, now, cells, 3)
        assert cell_len("".join(text for text, _ in line)) == cells
        assert not {"\x1b", "\u202e", "\n"} & set(text_of(line))
