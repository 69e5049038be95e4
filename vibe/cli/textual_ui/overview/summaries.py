"""Summaries of a view in a few lines: since a moment before, and what goes on at the end of a plan."""

from __future__ import annotations

from msgspec import Struct

from vibe.cli.textual_ui.overview.ticker import is_busy
from vibe.front.event_text import counted, one_line
from vibe.system.plain_text import some_of
from vibe.view.figures import short
from vibe.view.plan_view import FINAL, PlanView
from vibe.view.view import View

HEADINGS = {"completed": "Plan completed", "failed": "Plan failed", "paused": "Plan paused"}
MOST_NAMED = 3
WHY_LENGTH = 400


class ViewMoment(Struct, frozen=True, kw_only=True):
    """A view as it stood: the status of each step by plan and step, of each plan, who was busy, and what was spent."""

    steps: dict[tuple[str, str], str]
    plans: dict[str, str]
    busy: frozenset[str]
    tokens: int
    cost_usd: float | None


def moment(view: View) -> ViewMoment:
    """Keep how a view stands, for ``away_summary``."""
    return ViewMoment(
        steps={(plan.id, step.id): step.status for plan in view.plans.values() for step in plan.steps.values()},
        plans={plan.id: plan.status for plan in view.plans.values()},
        busy=frozenset(agent.id for agent in view.agents.values() if is_busy(agent)),
        tokens=view.spent.tokens,
        cost_usd=view.spent.cost_usd,
    )


def away_summary(before: ViewMoment, view: View) -> str:
    """Return in a line what happened since; empty: nothing that a person need know."""
    said = [*_plans_since(before, view), *_steps_since(before, view)]
    main = view.main
    if main is not None and main.id in before.busy and not is_busy(main):
        said.append("the agent has answered" if main.outcome in {None, "completed"} else f"the agent {main.outcome}")
    if view.requests:
        said.append(
            "1 request waits for you" if len(view.requests) == 1 else f"{len(view.requests)} requests wait for you"
        )
    if not said:
        return ""
    tokens = view.spent.tokens - before.tokens
    if tokens > 0:
        said.append(f"{short(tokens)} tok")
    if view.spent.cost_usd is not None and before.cost_usd is not None and view.spent.cost_usd > before.cost_usd:
        said.append(f"${view.spent.cost_usd - before.cost_usd:.2f}")
    return one_line(f"while you were away: {' · '.join(said)}", WHY_LENGTH)


def _plans_since(before: ViewMoment, view: View) -> list[str]:
    changed = [plan for plan in view.plans.values() if before.plans.get(plan.id) != plan.status]
    return [HEADINGS[plan.status].lower().replace("plan", "the plan", 1) for plan in changed if plan.status in HEADINGS]


def _steps_since(before: ViewMoment, view: View) -> list[str]:
    new: dict[str, list[str]] = {}
    for plan in view.plans.values():
        for step in plan.steps.values():
            if step.status in FINAL and before.steps.get((plan.id, step.id)) != step.status:
                new.setdefault(step.status, []).append(step.id)
    said: list[str] = []
    for status in ("completed", "failed", "skipped", "cancelled"):
        ids = new.get(status, [])
        named = f" ({some_of(ids, MOST_NAMED)})" if status == "failed" else ""
        said += [f"{counted(len(ids), 'step')} {status}{named}"] if ids else []
    return said


def next_lines(plan: PlanView) -> list[str]:
    """Return the commands that go on after a run of a plan; none: it has completed."""
    from vibe.front.next_command import try_again  # noqa: PLC0415  it loads the plan's model

    if plan.status == "paused":
        decide = f"decide with: vibe plan decide {plan.id}"
        asked = [
            f"decision {each.decision_id}: {each.question} ({decide} {each.decision_id} OPTION)"
            for each in plan.decisions.values()
        ]
        return [one_line(line, WHY_LENGTH) for line in (*asked, f"continue with: vibe plan resume {plan.id}")]
    if plan.status != "failed":
        return []
    return [one_line(line, WHY_LENGTH) for line in try_again(plan.id, list(plan.failed), plan.state.outcome)]
