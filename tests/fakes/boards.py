"""Boards of runs after some events, built without a bus, as a list of runs shows them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ipc import events as e
from ipc.registry import Entry, RunInfo
from vibe.app.watch.board import Board
from vibe.app.watch.runs import KnownRun
from vibe.view.view import apply

GOAL = "Give textkit slugify(), shorten() and titlecase(), each tested and documented"
COMMAND = "git add -A && git commit -m 'fix: slugs keep their letters' && git push origin main"


def known_run(source: str, plan_id: str | None, started: float, *, live: bool = True, title: str = "") -> KnownRun:
    """Return a run with one source."""
    info = RunInfo(cwd="~/textkit", title=title, plan_id=plan_id)
    entry = Entry(
        source=source, events="", replay="", control="", journal="", pid=1, started=started, info=info,
        ended=None if live else started + 60.0,
    )  # fmt: skip
    return KnownRun(key=plan_id or source, entries=(entry,), live=live)


def board_of(folder: Path, *runs: tuple[KnownRun, Sequence[e.Event]]) -> Board:
    """Return a board that knows these runs and has received their events."""
    board = Board(folder)
    board.know(tuple(run for run, _ in runs))
    for run, events in runs:
        if events:
            follower = board.open(run)
            for event in events:
                apply(follower.view, event)
            follower.ready.set()
    board.ready.set()
    return board


def asking_board(folder: Path, now: float) -> Board:
    """Return a board with a plan that asks twice, a plan at work, a conversation, and two runs that ended."""
    return board_of(
        folder,
        (known_run("one", "b7c2d4-20261128", now - 40.0), _asking("one", "b7c2d4-20261128", now)),
        (known_run("two", "c0ffee-20261128", now - 130.0), _working("two", "c0ffee-20261128", now)),
        (known_run("three", None, now - 300.0), _talking("three", now)),
        (known_run("four", "d00d1e-20261127", now - 90_000.0, live=False, title="Fix the flaky upload test"), ()),
        (known_run("five", None, now - 100_000.0, live=False, title="Explain the cache"), ()),
    )


def _steps(count: int) -> tuple[e.StepOutline, ...]:
    return tuple(e.StepOutline(id=f"s{number}", title=f"Step {number}", mode="code") for number in range(count))


def _moved(step: int, status: str, **whose: Any) -> e.PlanStepUpdateEvent:
    return e.PlanStepUpdateEvent(step_id=f"s{step}", title=f"Step {step}", status=status, previous="pending", **whose)


def _asking(source: str, plan_id: str, now: float) -> list[e.Event]:
    whose: dict[str, Any] = {"source": source, "plan_id": plan_id, "ts": now - 40.0}
    agent: dict[str, Any] = {"subagent_id": "a1", "subagent_step_id": "s10", **whose, "ts": now - 12.0}
    return [
        e.PlanStartedEvent(goal=GOAL, steps=_steps(14), **whose),
        *(_moved(step, "completed", **whose) for step in range(10)),
        *(_moved(step, "in_progress", **whose) for step in (10, 11)),
        e.UsageEvent(model="m", prompt_tokens=110_000, completion_tokens=3_000, cost_usd=0.13, **whose),
        e.ApprovalRequestEvent(
            request_id="r1", tool_call_id="1", tool="bash", arguments={"command": COMMAND}, rule="permission",
            reason="bash needs your approval: no rule allows git push", covers=("bash: git push",), confined=False,
            **agent,
        ),
        e.PlanDecisionEvent(
            decision_id="where", question="Where should textkit 1.1 go?", options=("staging", "registry"),
            labels=("Staging first", "Straight to the registry"), descriptions=("look at it first", ""), step_id="s11",
            **whose,
        ),
    ]  # fmt: skip


def _working(source: str, plan_id: str, now: float) -> list[e.Event]:
    whose: dict[str, Any] = {"source": source, "plan_id": plan_id, "ts": now - 130.0}
    return [
        e.PlanStartedEvent(goal="Move the API to v2", steps=_steps(21), **whose),
        *(_moved(step, "completed", **whose) for step in range(3)),
        _moved(3, "in_progress", **whose),
        e.UsageEvent(model="m", prompt_tokens=38_000, completion_tokens=2_000, cost_usd=0.05, **whose),
    ]


def _talking(source: str, now: float) -> list[e.Event]:
    whose: dict[str, Any] = {"source": source, "session_id": source, "ts": now - 300.0}
    return [
        e.SessionStartedEvent(workspace="~/textkit", agent="default", model="m", version="1", **whose),
        e.PromptStartedEvent(prompt_id="1", **whose),
        e.UserMessageEvent(text="Rename the module and mend all imports", **whose),
    ]
