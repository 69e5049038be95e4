"""RunWatcher: what a person sees of a run elsewhere, and the effect of their keys."""

from __future__ import annotations

from typing import Any

import pytest

from ipc import events as e
from ipc.events import Event
from vibe.cli.terminal.watching import RunWatcher
from vibe.view.view import View, apply

STEPS = tuple(e.StepOutline(id=f"s{n}", title=f"Step {n}", mode="code") for n in range(1, 13))
WHO: dict[str, Any] = {"plan_id": "p", "subagent_id": "agent", "subagent_step_id": "s2"}
STORY: list[Event] = [
    e.PlanStartedEvent(goal="The goal", steps=STEPS, plan_id="p"),
    e.PlanStepUpdateEvent(step_id="s2", title="Step 2", status="in_progress", previous="pending", plan_id="p"),
    e.UserMessageEvent(text="do\x1b[2J it", ts=1.0, **WHO),
    e.ReasoningDeltaEvent(message_id="m", text="let me see", ts=2.0, **WHO),
    e.AssistantEvent(message_id="m", text="I look.\nThen I act.", tool_calls=1, ts=3.0, **WHO),
    e.ToolCallEvent(tool_call_id="c", tool="bash", arguments={}, summary="bash ls", ts=4.0, **WHO),
    e.ToolStreamEvent(tool_call_id="c", tool="bash", text="a line\n" * 20 + "the last", ts=5.0, **WHO),
    e.WarningEvent(code="w", message="careful", ts=6.0, **WHO),
]


def view_of(*events: Event) -> View:
    view = View()
    for event in events:
        apply(view, event)
    return view


def shown(watcher: RunWatcher, view: View, width: int = 60, height: int = 20) -> list[str]:
    lines = watcher.draw(view, 10.0, width, height)
    assert len(lines) <= height
    assert max(line.cell_len for line in lines) <= width
    return [line.plain.rstrip() for line in lines]


def after(view: View, *keys: str) -> RunWatcher:
    watcher = RunWatcher()
    assert all(watcher.press(key, view) for key in keys)
    return watcher


@pytest.mark.parametrize(
    ("keys", "step_id"),
    [
        (("down",), "s1"),
        (("down", "down"), "s2"),
        (("up",), "s12"),
        (("up", "down"), "s12"),
        (("3",), "s3"),
        (("1", "2"), "s12"),
        (("1", "9"), "s9"),
        (("3", "up"), "s2"),
        (("0",), ""),
        (("enter",), "s2"),
        (("x",), ""),
    ],
)
def test_keys_choose_a_step(keys: tuple[str, ...], step_id: str) -> None:
    assert after(view_of(*STORY), *keys).step_id == step_id


def test_the_chosen_step_is_in_sight_and_marked() -> None:
    view = view_of(*STORY)
    watcher = after(view, "up")
    lines = watcher.draw(view, 10.0, 60, 8)
    assert [line.plain[:12].strip() for line in lines if any("reverse" in str(span.style) for span in line.spans)] == [
        "· s12"
    ]
    assert lines[-1].plain.startswith(" ↑↓ or its number")
    assert "q: leave (the run continues)" in lines[-1].plain


def test_a_transcript_shows_what_was_told_said_done_and_printed() -> None:
    view = view_of(*STORY)
    watcher = after(view, "2", "t")
    lines = shown(watcher, view, height=30)
    assert lines[0] == " s2: Step 2 · in_progress · bash ls › the last"  # noqa: RUF001  a mark
    assert lines[1:8] == ["> do it", "thought", "let me see", "I look.", "Then I act.", "▸ bash ls", "  │ a line"]
    assert lines[-3:] == ["  │ the last", "careful", " ↑↓: scroll · Esc: back · q: back"]


def test_a_transcript_is_scrolled_no_further_than_it_goes() -> None:
    view = view_of(*STORY)
    watcher = after(view, "2", "t", *["up"] * 100)
    top = shown(watcher, view, height=8)
    assert top[1] == "> do it"
    assert watcher.press("down", view)
    assert shown(watcher, view, height=8)[1:6] == top[2:7]


def test_back_is_the_plan_and_then_the_way_out() -> None:
    view = view_of(*STORY)
    for key in ("escape", "q"):
        watcher = after(view, "2", "enter", key)
        assert shown(watcher, view)[0].startswith("▸ The goal ")
        assert not watcher.press(key, view)


def test_a_diff_is_shown_for_an_edit_and_a_denial_is_said() -> None:
    edit = e.ToolResultEvent(
        tool_call_id="c",
        tool="edit",
        status="ok",
        content="x",
        diff="--- a\n+++ b\n@@ -1 +1 @@\n-one\n+two",
        duration_s=0.5,
        **WHO,
    )
    denied = e.ToolResultEvent(tool_call_id="d", tool="bash", status="denied", content="Denied: no", **WHO)
    call = e.ToolCallEvent(tool_call_id="d", tool="bash", arguments={}, summary="rm", ts=7.0, **WHO)
    view = view_of(*STORY, edit, call, denied)
    lines = shown(after(view, "2", "t"), view, height=30)
    at = next(at for at, line in enumerate(lines) if line.startswith("✓ bash ls") and line.endswith("0.5 s"))
    assert [line.split() for line in lines[at + 1 : at + 4]] == [
        ["b", "(was", "a)"],
        ["1", "-", "one"],
        ["1", "+", "two"],
    ]
    assert lines[-3].startswith("⊘ rm ")
    assert lines[-3].endswith("denied")
    assert lines[-2] == "  │ Denied: no"


def test_a_run_without_a_plan_shows_its_own_agent() -> None:
    watcher = RunWatcher()
    assert shown(watcher, View())[0] == " no events yet"
    started = e.SessionStartedEvent(workspace="/w", model="m", agent="default", session_id="s", source="r")
    told = e.UserMessageEvent(text="hello", session_id="s", source="r")
    view = view_of(started, told)
    assert shown(watcher, view) == [
        " default · m · waiting for m",
        "> hello",
        " ↑↓: scroll · q: leave (the run continues)",
    ]
    assert watcher.press("up", view)
    assert not watcher.press("q", view)
