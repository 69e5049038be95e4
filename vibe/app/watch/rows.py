"""Rows: a run and an open request as small flat JSON objects, as every list of runs shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from ipc.events import ApprovalRequestEvent, PlanDecisionEvent, QuestionEvent
from planner.plan.status import PlanStatus
from vibe.app.watch.runs import KnownRun
from vibe.view.agent_view import RequestView
from vibe.view.plan_view import PlanView
from vibe.view.view import View

TITLE_CHARACTERS = 2_000
"""Of a goal."""
LINE_CHARACTERS = 160
"""Of what goes on, or why something ended."""
ASKED: Final[dict[type, tuple[str, ...]]] = {
    ApprovalRequestEvent: ("tool", "diff", "reason", "rule", "covers", "edits", "cwd", "confined"),
    QuestionEvent: ("questions",),
    PlanDecisionEvent: ("question", "options", "labels", "descriptions", "multi_select", "default", "timeout_seconds"),
}
"""Fields of the events that ask, as their rows have them."""
PLANNER = "planner"
"""The agent that writes plans; what it is prompted with are not a person's words."""
DIED = "its process died: `vibe plan resume {}` continues it"


def run_row(run: KnownRun, view: View | None = None) -> dict[str, Any]:
    """The row of a run, from its folded events, or (None) from what its folders say.

    Fields at their default are left out, but for ``title``. ``status`` is that of the plan, or of a conversation
    ``active``, ``idle``, ``proposed`` (its plan, which waits for an answer) or ``ended``; of either ``lost``, if its
    process died. ``checks`` counts those that passed, those that failed and all; ``requests`` those that wait for a
    person. Times are unix seconds.
    """
    plan = None if view is None else view.plan
    row = {"title": run.title, "folder": run.folder, "live": run.live, "started_at": moment(run.started_at)}
    if view is None:
        row |= _listed(run)
    else:
        row |= _plan(run, view, plan) if plan is not None and run.is_plan else _conversation(run, view)
        row |= {"requests": len(view.requests)}
    return told(row, "title")


def request_row(run: KnownRun, view: View, request: RequestView) -> dict[str, Any]:
    """The row of an open request: what is asked, by whom, and all that a person needs to answer."""
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
        "command": command_in(event.arguments) if isinstance(event, ApprovalRequestEvent) else "",
        **fields(event, *ASKED[type(event)]),
    }
    return told(row, "kind")


def told(row: dict[str, Any], first: str) -> dict[str, Any]:
    """The row without what says nothing, but for its ``first`` field."""
    return {name: value for name, value in row.items() if name == first or value or (name, value) == UNCONFINED}


UNCONFINED = ("confined", False)
"""A command without a sandbox says so; of one that is no command nothing is said."""


def fields(part: object, *names: str) -> dict[str, Any]:
    """Those fields of a part, as rows have them."""
    values = {name: getattr(part, name) for name in names}
    return {name: list(cast("tuple[Any]", one)) if isinstance(one, tuple) else one for name, one in values.items()}


def command_in(arguments: Mapping[str, Any], name: str = "command") -> str:
    """The text of that name among the arguments of a tool; blank: there is none."""
    value = arguments.get(name)
    return value if isinstance(value, str) else ""


def moment(amount: float | None, digits: int = 3) -> float | None:
    """Unix seconds as rows have them; with other digits, other amounts."""
    return None if amount is None else round(amount, digits)


def dollars(amount: float | None) -> float | None:
    """Dollars as rows have them."""
    return moment(amount, 6)


def _listed(run: KnownRun) -> dict[str, Any]:
    plan = run.plan
    if plan is None:
        entry = run.entries[-1]
        lost = not run.live and entry.ended is None
        status = "active" if run.live else "lost" if lost else "ended"
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


def _plan(run: KnownRun, view: View, plan: PlanView) -> dict[str, Any]:
    lost = plan.status == PlanStatus.ACTIVE and not run.live
    return {
        "title": plan.goal[:TITLE_CHARACTERS] or run.title,
        "status": "lost" if lost else plan.status,
        "reason": DIED.format(plan.id) if lost else plan.reason[:LINE_CHARACTERS],
        **_steps(plan),
        **fields(plan, "outcome", "tokens", "max_tokens"),
        "cost_usd": dollars(plan.spent.cost_usd),
        "doing": _doing(view, plan),
        "started_at": moment(plan.started_at),
        "ended_at": moment(plan.ended_at),
        "progress_at": moment(plan.progress_at),
        "waited_s": round(plan.waited_s, 1),
    }


def _steps(plan: PlanView) -> dict[str, Any]:
    checks = plan.checks
    return {
        "counts": {name: count for name, count in plan.counts.items() if count},
        **fields(plan, "total", "done"),
        "checks": [checks.passed, checks.failed, checks.all] if checks.all else [],
        "same_failure": checks.same_failure,
    }


def _doing(view: View, plan: PlanView) -> str:
    """Return what is asked, else what goes on in the step that has run longest; never a look at all steps."""
    asked = next(reversed(view.requests), "")
    busy = plan.steps.get(view.asking_step(asked)) or next(iter(plan.running.values()), None)
    return "" if busy is None else f"{busy.id}: {busy.doing()}"[:LINE_CHARACTERS]


def _conversation(run: KnownRun, view: View) -> dict[str, Any]:
    main = view.main
    source = next(reversed(view.runs.values()), None)
    prompt = "" if main is None or main.profile == PLANNER else _last_prompt(view)
    busy = main is not None and main.prompt is not None
    at_rest = "idle" if view.plan is None or view.plan.proposal is None else "proposed"
    ended = None if source is None else source.ended_at
    lost = not run.live and ended is None
    return {
        "title": prompt[:TITLE_CHARACTERS] or run.title,
        "status": "lost" if lost else "ended" if not run.live else "active" if busy else at_rest,
        "outcome": None if source is None else source.outcome,
        "tokens": view.spent.tokens,
        "max_tokens": None if main is None else main.max_tokens,
        "cost_usd": dollars(view.spent.cost_usd),
        "doing": "" if main is None else main.doing()[:LINE_CHARACTERS],
        "ended_at": moment(ended),
        **({} if view.plan is None else _steps(view.plan)),
    }


def _last_prompt(view: View) -> str:
    """The last words of the person to the agent of a conversation, as far as its transcript goes back."""
    entries: Iterable[Any] = () if view.main is None else reversed(view.main.entries.values())
    return next((entry.text for entry in entries if entry.kind == "user" and entry.name == "prompt"), "")
