"""Each event is one readable, harmless line."""

from __future__ import annotations

import pytest

from ipc.events import BaseEvent, PlanExpectation, PlanStepUpdateEvent, ToolResultEvent, UsageEvent, UserMessageEvent
from tests.fakes.events import event_classes, example
from vibe.front.event_text import describe, forecast
from vibe.system.plain_text import LINE_LENGTH, one_line


@pytest.mark.parametrize("kind", event_classes(), ids=lambda kind: kind.__name__)
def test_every_event_is_one_harmless_line(kind: type[BaseEvent]) -> None:
    line = describe(example(kind))

    assert line
    assert len(line) <= LINE_LENGTH
    assert not set(line) & {"\n", "\r", "\x1b", "\u202e"}


def test_a_forecast_names_no_tokens_where_none_are_needed() -> None:
    assert forecast(PlanExpectation(seconds=4.0, cost_usd=0.0)) == "about 4 s"
    assert forecast(PlanExpectation(seconds=4.0, tokens=900, cost_usd=0.0)) == "about 4 s · 900 tok · $0.00"


def test_lines_say_what_matters() -> None:
    step = PlanStepUpdateEvent(
        step_id="s2",
        title="Write it",
        status="failed",
        previous="running",
        reason="verify",
        detail="2 tests",
        attempt=2,
    )
    result = ToolResultEvent(
        tool_call_id="c", tool="bash", status="ok", content="done", duration_s=1.25, files_changed=("a.py", "b.py")
    )

    assert describe(step) == "step s2 running → failed (attempt 2): Write it (verify: 2 tests)"
    assert describe(result) == "bash ok after 1.2 s, changed a.py, b.py: done"
    assert describe(UsageEvent(model="m", prompt_tokens=10, completion_tokens=2)) == "m: 10 + 2 tokens"
    assert describe(UserMessageEvent(text="a\nb\tc")) == "user: a b c"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a\u202eb\x9b31mc\x00d\u2066e", "abcde"),
        ("x" * 500, "x" * (LINE_LENGTH - 1) + "…"),
    ],
)
def test_what_could_move_the_cursor_is_taken_out(text: str, shown: str) -> None:
    assert one_line(text) == shown
