"""Words on a plan and its steps, the same wherever a person watches one: marks, reasons, totals, bars."""

from __future__ import annotations

from planner.plan.status import MARKS, REUSED_MARK
from vibe.core.modes import MODE_CATALOG, ExecutionMode
from vibe.front.event_text import one_line
from vibe.view.figures import clock, dollars, short
from vibe.view.plan_view import FINAL, PlanView, StepView

EIGHTHS = " ▏▎▍▌▋▊▉█"
LEFT_OUT = "only"
DEEPEST = 5
"""Levels beyond it are drawn at this one: what a step is called matters more than how deep it lies."""
SPARED_FIRST = ("undecided", "cancelled", "skipped", "tokens", "running", "cost")
"""Parts of the totals that go, one after the other, where the line is too short for all."""


def unmet(step: StepView, plan: PlanView) -> list[str]:
    """Ids of the steps it still waits for."""
    return [above for above in step.depends_on if above in plan.steps and plan.steps[above].status not in FINAL]


def mark(step: StepView) -> str:
    """One character for how a step stands; of one that runs, the still one."""
    if step.is_asking:
        return "?"
    return REUSED_MARK if step.reused else MARKS.get(step.status, "·")


def mode_icon(mode: str) -> str:
    """One character for a mode; a dot for one that is none of ours."""
    return MODE_CATALOG[ExecutionMode(mode)].icon if mode in ExecutionMode.__members__.values() else "·"


def indent(step: StepView) -> str:
    """The lines of the tree before a step."""
    level = min(step.level, DEEPEST)
    return " " if level == 0 else " " + "│ " * (level - 1) + "├ "


def hint(step: StepView, plan: PlanView) -> str:
    """Return the reason why a step does not run; empty: it does, or did."""
    if known := _standing(step):
        return known
    if step.status in {"skipped", "cancelled"} and step.duration_s is None:
        return one_line(f"{step.status}: {step.reason}" if step.reason else step.status)
    if step.status in FINAL or step.status == "in_progress" or step.duration_s is not None:
        return ""
    above = unmet(step, plan)
    if above:
        return one_line("after " + ", ".join(above))
    lost = [each for each in step.depends_on if each in plan.failed]
    if lost and step.status == "blocked":
        return one_line("held up by " + ", ".join(lost))
    writing = step.waits.step_ids if step.waits is not None and step.waits.waits_for == "files" else ()
    return one_line("its files: " + ", ".join(writing)) if writing else "next"


def _standing(step: StepView) -> str:
    """Return the most urgent thing to say of a step."""
    if step.status == "needs_decision":
        return "waits for a decision"
    if step.reused:
        return "reused"
    return "left out" if step.reason == LEFT_OUT else ""


def second_row(step: StepView) -> str:
    """Return the line below a step: its doing while it runs, its reason if it failed."""
    if step.replanning:
        return one_line(f"replanning › {step.doing()}", 400)  # noqa: RUF001  a mark
    if step.status == "in_progress":
        return one_line(step.doing(), 400)
    return one_line(step.reason, 400) if step.status == "failed" else ""


def totals(plan: PlanView, now: float) -> dict[str, str]:
    """The parts of the line on all of a plan, in order, by name; an unknown price is no part of it."""
    said = {"steps": f"{plan.done}/{plan.total} steps"}
    if plan.running:
        said["running"] = f"{len(plan.running)} running"
    said |= {
        status: f"{plan.counts[status]} {status}"
        for status in ("failed", "skipped", "cancelled")
        if plan.counts.get(status)
    }
    if plan.replanning:
        said["replanning"] = f"{len(plan.replanning)} replanning"
    if plan.decisions:
        said["undecided"] = f"{len(plan.decisions)} undecided"
    if plan.spent.calls or plan.max_tokens:
        most = f"/{short(plan.max_tokens)}" if plan.max_tokens else ""
        said["tokens"] = f"{short(plan.tokens)}{most} tok"
    if plan.spent.calls and plan.spent.cost_usd is not None:
        said["cost"] = dollars(plan.spent.cost_usd)
    said["time"] = clock(plan.elapsed(now))
    if plan.status not in {"active", "idle"}:
        said["status"] = plan.status
    return said


def totals_line(plan: PlanView, now: float, cells: int) -> str:
    """The same as a line, without what is least missed where it would be wider than so many cells."""
    from rich.cells import cell_len

    said = totals(plan, now)
    for spare in SPARED_FIRST:
        if cell_len(" · ".join(said.values())) <= cells:
            break
        said.pop(spare, None)
    return " · ".join(said.values())


def bar(share: float, cells: int) -> str:
    """A bar of so many cells, filled to the eighth of a cell; something spent is never drawn as nothing."""
    eighths = round(min(1.0, max(0.0, share)) * cells * 8)
    if share > 0:
        eighths = max(1, eighths)
    full, rest = divmod(eighths, 8)
    drawn = "█" * full + (EIGHTHS[rest] if rest else "")
    return drawn + "·" * (cells - len(drawn))
