"""Rows of the overview: steps of a plan, agents, things to do, context and cost; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from ipc.events import TodoEntry
from planner.plan.status import MARKS
from vibe.cli.textual_ui.overview.row_list import ListRow
from vibe.cli.textual_ui.overview.ticker import is_busy, pressure
from vibe.front.event_text import one_line
from vibe.front.plan_words import bar, hint, indent, mark, mode_icon, second_row, short, took
from vibe.view.agent_view import AgentView
from vibe.view.plan_view import PlanView
from vibe.view.step_view import WAITING, StepView
from vibe.view.view import View

MUTED = "$foreground-muted"
STYLES = {
    "completed": "$text-success",
    "failed": "$text-error",
    "in_progress": "bold $text-accent",
    "needs_decision": "$text-warning",
}
"""Of a step's mark, by status; muted for the others."""
MOST_ENDED = 10
"""Agents that ended which are listed."""
BAR = 10
TITLE_LENGTH = 200
LINE_LENGTH = 400


# --- the plan


def plan_lines(plan: PlanView) -> list[tuple[str, str]]:
    """The lines of a plan: the id of a step for its first, and with a blank one in front for its second."""
    lines: list[tuple[str, str]] = []
    for step_id, step in plan.steps.items():
        lines.append((step_id, step_id))
        if step_id in plan.running or step_id in plan.failed or step_id in plan.replanning:
            lines.append(("", step.id))
    return lines


def step_row(step: StepView, plan: PlanView, now: float) -> ListRow:
    """The first row of a step."""
    style = "$text-warning" if step.is_asking else STYLES.get(step.status, MUTED)
    again = f" (attempt {step.attempt})" if step.attempt > 1 else ""
    title = one_line(step.title, TITLE_LENGTH) + again
    is_waiting = step.status in WAITING
    left = ((indent(step), MUTED), (f"{mark(step)} ", style), (title, MUTED if is_waiting else ""))
    return ListRow(left, ((f" {mode_icon(step.mode)} ", MUTED), (_figures(step, plan, now), MUTED)))


def _figures(step: StepView, plan: PlanView, now: float) -> str:
    """The reason why a step does not run, or its time and tokens."""
    why = hint(step, plan)
    if why:
        return why
    elapsed = step.elapsed(now)
    tokens = step.budget_used if step.max_tokens is not None else step.spent.tokens
    most = f"/{short(step.max_tokens)}" if step.max_tokens is not None else ""
    spent = f"{short(tokens)}{most}" if tokens else ""
    return " ".join(filter(None, ("" if elapsed is None else took(elapsed), spent)))


def step_second_row(step: StepView) -> ListRow:
    """The second row of a step: its doing, or why it failed."""
    style = "$text-error" if step.status == "failed" else "$text-warning" if step.is_asking else MUTED
    lead = indent(step).replace("├", "│")
    return ListRow(((lead, MUTED), ("╰ ", MUTED), (second_row(step), style)))


def place_of_interest(plan: PlanView, lines: Sequence[tuple[str, str]]) -> int:
    """The line to have in sight: of the first step that waits for a person or runs, else that comes next."""
    wanted = {step.id for step in plan.steps.values() if step.status == "needs_decision"} | set(plan.running)
    wanted = wanted or set(islice((step.id for step in plan.steps.values() if step.status in WAITING), 1))
    return next((index for index, (step_id, _) in enumerate(lines) if step_id in wanted), 0)


# --- the agents


def listed_agents(view: View, main: AgentView | None) -> list[AgentView]:
    """The agent of the chat, then those at work as they began, then the last that ended."""
    others = [agent for agent in view.agents.values() if agent is not main]
    active = [agent for agent in others if is_active(view, agent)]
    ended = [agent for agent in others if agent.ended_at is not None]
    ended.sort(key=lambda agent: agent.ended_at or 0.0, reverse=True)
    first = [] if main is None else [main]
    return [*first, *active, *ended[:MOST_ENDED]]


def is_active(view: View, agent: AgentView) -> bool:
    """Return True if an agent is at work, or may go on."""
    if agent.ended_at is not None:
        return False
    step = view.step_of(agent)
    return is_busy(agent) or bool(agent.requests) or step is None or step.status == "in_progress"


def agent_lines(view: View, agents: Iterable[AgentView]) -> list[tuple[str, str]]:
    """The lines of agents, as ``plan_lines``."""
    lines: list[tuple[str, str]] = []
    for agent in agents:
        lines.append((agent.id, agent.id))
        is_someones = agent.parent_id is not None or view.step_of(agent) is not None
        is_at_work = is_busy(agent) or bool(agent.requests) or is_someones
        if is_at_work and is_active(view, agent) and agent.doing():
            lines.append(("", agent.id))
    return lines


def agent_name(agent: AgentView) -> str:
    """A name for an agent, in a line."""
    return one_line(agent.title or agent.step_id or agent.profile or agent.id[:8] or "agent", TITLE_LENGTH)


def agent_row(view: View, agent: AgentView) -> ListRow:
    """The first row of an agent."""
    sign, style = _agent_mark(view, agent)
    lead = "  " if agent.parent_id is not None else " "
    tokens = f" {short(agent.spent.tokens)} tok" if agent.spent.tokens else ""
    return ListRow(((lead, ""), (f"{sign} ", style), (agent_name(agent), "")), ((tokens, MUTED),))


def _agent_mark(view: View, agent: AgentView) -> tuple[str, str]:
    if agent.requests:
        return "?", "$text-warning"
    if agent.ended_at is None:
        busy = is_busy(agent) or (is_active(view, agent) and view.step_of(agent) is not None)
        return (MARKS["in_progress"], STYLES["in_progress"]) if busy else ("·", MUTED)
    if agent.outcome in {None, "completed"}:
        return MARKS["completed"], STYLES["completed"]
    if agent.outcome == "interrupted":
        return MARKS["cancelled"], MUTED
    return MARKS["failed"], STYLES["failed"]


def agent_second_row(agent: AgentView) -> ListRow:
    """The second row of an agent: its doing."""
    lead = "  " if agent.parent_id is not None else " "
    style = "$text-warning" if agent.requests else MUTED
    return ListRow(((f"{lead}╰ ", MUTED), (one_line(agent.doing(), LINE_LENGTH), style)))


# --- things to do, context and cost


def todo_row(entry: TodoEntry) -> ListRow:
    """A thing to do."""
    sign = MARKS.get(entry.status, "·")
    style = "" if entry.status == "in_progress" else MUTED
    words = one_line(entry.content, LINE_LENGTH)
    return ListRow(((" ", ""), (f"{sign} ", STYLES.get(entry.status, MUTED)), (words, style)))


def meter_rows(view: View, agent: AgentView | None) -> list[ListRow]:
    """The agent's context, how full it is, and all that was spent."""
    rows: list[ListRow] = []
    if agent is not None and agent.context_tokens and agent.context_limit:
        share = agent.context_tokens / agent.context_limit
        said = f"{share:.0%} of {short(agent.context_limit)}"
        rows.append(
            ListRow(
                (("context ", MUTED), (bar(share, BAR), pressure(share) or "$text-success")), ((said, pressure(share)),)
            )
        )
    if view.spent.calls:
        cost = "unknown cost" if view.spent.cost_usd is None else f"${view.spent.cost_usd:.2f}"
        rows.append(ListRow((("spent", MUTED),), ((f"{short(view.spent.tokens)} tok · {cost}", ""),)))
    return rows
