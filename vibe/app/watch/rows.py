"""Rows: a run and an open request as small flat JSON objects, as every list of runs shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from ipc.events import ApprovalRequestEvent, PlanDecisionEvent, QuestionEvent
from planner.plan.status import PlanStatus, status_text
from vibe.app.watch.runs import KnownRun
from vibe.core.tools.edits import asked_diff
from vibe.view.agent_view import RequestView
from vibe.view.plan_view import PlanView
from vibe.view.view import View

TITLE_CHARACTERS = 2_000
"""The most characters of a goal."""
LINE_CHARACTERS = 160
"""The most characters of a line that says what goes on, or why something ended."""
ASKED: Final[dict[type, tuple[str, ...]]] = {
    ApprovalRequestEvent: ("tool", "reason", "rule", "covers", "edits", "cwd", "confined"),
    QuestionEvent: ("questions",),
    PlanDecisionEvent: ("question", "options", "labels", "descriptions", "multi_select", "default", "timeout_seconds"),
}
"""The fields that a request's row takes from the event that asks."""
PLANNER = "planner"
"""The agent that writes plans. Its prompts are not a person's words."""
GOES_ON = "`vibe plan resume {}` continues it"
DIED = f"its process died: {GOES_ON}"


def run_row(run: KnownRun, view: View | None = None) -> dict[str, Any]:
    """Return the row of a run, from its view, or from what its folders say if there is none.

    Fields at their default are left out, except ``title``. ``status`` is that of the plan; of a conversation it is
    ``active``, ``idle``, ``proposed`` (its plan waits for an answer) or ``ended``. Either is ``lost`` if its process
    died. ``checks`` counts those that passed, those that failed and all. ``requests`` counts those that wait for a
    person. ``words`` says why a plan is paused, failed or lost, and what continues it. Times are unix seconds.
    """
    plan = None if view is None else view.plan
    row: dict[str, Any] = {**fields(run, "title", "folder", "live"), "started_at": moment(run.started_at)}
    if view is None:
        row |= _from_folders(run)
    else:
        row |= _plan_row(run, view, plan) if plan is not None and run.is_plan else _conversation_row(run, view)
        row |= {"requests": len(view.requests)}
    is_paused = row["status"] == PlanStatus.PAUSED
    if is_paused or row.get("reason"):
        goes_on = f": {GOES_ON.format(run.key)}" if is_paused and not run.live else ""
        row["words"] = status_text(row["status"], row["reason"]) + goes_on
    return trim(row, "title")


def request_row(run: KnownRun, view: View, request: RequestView) -> dict[str, Any]:
    """Return the row of an open request: what is asked, by whom, and all that a person needs to answer."""
    event = request.event
    agent = view.agents.get(request.agent_id or "")
    step = event.step_id if isinstance(event, PlanDecisionEvent) else None if agent is None else agent.step_id
    row = {
        "kind": request.kind,
        "run": run.key,
        "plan": request.plan_id,
        "step": step,
        "agent": request.agent_id,
        "asked_at": moment(event.ts),
        "summary": request.asked,
        **fields(event, *ASKED[type(event)]),
    }
    if isinstance(event, ApprovalRequestEvent):
        row |= {"command": command_in(event.arguments), "diff": asked_diff(event)}
    return trim(row, "kind")


def trim(row: dict[str, Any], first: str) -> dict[str, Any]:
    """Return a row without its blank fields, except the ``first`` one."""
    return {name: value for name, value in row.items() if name == first or value or (name, value) == UNCONFINED}


UNCONFINED = ("confined", False)
"""A field that is kept although it is false: it marks a command without a sandbox. Other calls don't have it."""


def fields(part: object, *names: str) -> dict[str, Any]:
    """Return some fields of a part as rows have them."""
    values = {name: getattr(part, name) for name in names}
    return {name: list(cast("tuple[Any]", one)) if isinstance(one, tuple) else one for name, one in values.items()}


def command_in(arguments: Mapping[str, Any], name: str = "command") -> str:
    """Return the text of a name among a tool's arguments; empty if there is none."""
    value = arguments.get(name)
    return value if isinstance(value, str) else ""


def moment(amount: float | None, digits: int = 3) -> float | None:
    """Return unix seconds as rows have them. With other digits, it rounds other amounts."""
    return None if amount is None else round(amount, digits)


def dollars(amount: float | None) -> float | None:
    """Return dollars as rows have them."""
    return moment(amount, 6)


def _from_folders(run: KnownRun) -> dict[str, Any]:
    plan = run.plan
    if plan is None:
        entry = run.entries[-1]
        status = "active" if run.live else "lost" if entry.ended is None else "ended"
        return {"status": status, "ended_at": moment(entry.ended)}
    done, total = plan.progress
    lost = not run.live and plan.is_interrupted
    return {
        "title": plan.goal[:TITLE_CHARACTERS] or run.title,
        "status": "lost" if lost else plan.status or "unknown",
        "reason": DIED.format(plan.plan_id) if lost else (plan.problem or plan.reason or "")[:LINE_CHARACTERS],
        "counts": {name: count for name, count in plan.counts.items() if count},
        "total": total,
        "done": done,
        "ended_at": None if run.live else moment(plan.updated),
    }


def _plan_row(run: KnownRun, view: View, plan: PlanView) -> dict[str, Any]:
    lost = plan.status == PlanStatus.ACTIVE and not run.live
    return {
        "title": plan.goal[:TITLE_CHARACTERS] or run.title,
        "status": "lost" if lost else plan.status,
        "reason": DIED.format(plan.id) if lost else plan.reason[:LINE_CHARACTERS],
        **_progress(plan),
        **fields(plan, "outcome", "tokens", "max_tokens"),
        "cost_usd": dollars(plan.spent.cost_usd),
        "doing": _doing(view, plan),
        "started_at": moment(plan.started_at),
        "ended_at": moment(plan.ended_at),
        "progress_at": moment(plan.progress_at),
        "waited_s": round(plan.waited_s, 1),
    }


def _progress(plan: PlanView) -> dict[str, Any]:
    checks = plan.checks
    return {
        "counts": {name: count for name, count in plan.counts.items() if count},
        **fields(plan, "total", "done"),
        "checks": [checks.passed, checks.failed, checks.all] if checks.all else [],
        "same_failure": checks.same_failure,
    }


def _doing(view: View, plan: PlanView) -> str:
    """Return what is asked, else what happens in the step that has run longest, without looking at all steps."""
    asked = next(reversed(view.requests), "")
    busy = plan.steps.get(view.asking_step(asked)) or next(iter(plan.running.values()), None)
    return "" if busy is None else f"{busy.id}: {busy.doing()}"[:LINE_CHARACTERS]


def _conversation_row(run: KnownRun, view: View) -> dict[str, Any]:
    main = view.main
    source = next(reversed(view.runs.values()), None)
    prompt = "" if main is None or main.profile == PLANNER else _last_prompt(view)
    busy = main is not None and main.prompt is not None
    at_rest = "idle" if view.plan is None or view.plan.proposal is None else "proposed"
    ended = None if source is None else source.ended_at
    return {
        "title": prompt[:TITLE_CHARACTERS] or run.title,
        "status": ("active" if busy else at_rest) if run.live else "lost" if ended is None else "ended",
        "outcome": None if source is None else source.outcome,
        "tokens": view.spent.tokens,
        "max_tokens": None if main is None else main.max_tokens,
        "cost_usd": dollars(view.spent.cost_usd),
        "doing": "" if main is None else main.doing()[:LINE_CHARACTERS],
        "ended_at": moment(ended),
        **({} if view.plan is None else _progress(view.plan)),
    }


def _last_prompt(view: View) -> str:
    """Return the person's last words to the agent of a conversation, as far as its transcript goes back."""
    entries: Iterable[Any] = () if view.main is None else reversed(view.main.entries.values())
    return next((entry.text for entry in entries if entry.kind == "user" and entry.name == "prompt"), "")
