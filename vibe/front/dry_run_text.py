"""Describes the run that ``vibe plan run --dry-run`` predicts, in plain text."""

from __future__ import annotations

from collections.abc import Iterator

from vibe.app.plan.dry_run import DryRun, StepNeeds
from vibe.system.plain_text import counted, one_line, some_of

LONG = 400
SHOWN_LEVEL = 12


def dry_run_lines(found: DryRun) -> Iterator[str]:
    """Yield the order, longest chain, bounds, what steps need, decisions, commands, and what prevents a start."""
    plan, bounds = found.plan, found.bounds
    yield one_line(plan.goal, LONG)
    if found.start.note:
        yield f"\n{one_line(found.start.note, 2 * LONG)}"
    yield "\nOrder (steps on one line can run in parallel):"
    yield from (f"  {number}. {', '.join(level)}" for number, level in enumerate(found.order, start=1))
    path = bounds.critical_path
    yield f"\nCritical path, {len(path)} of {bounds.steps} steps: {' -> '.join(path)}"
    yield f"Max parallel: {bounds.width}"
    yield from _bounds(found)
    yield from (f"note: {one_line(sentence, LONG)}" for sentence in found.said[1 + bool(bounds.model_steps) :])
    yield from _needs(found.steps)
    yield from _decisions(found)
    commands = [f"  {step.id}: {one_line(line)}" for step in found.steps for line in step.commands]
    if commands:
        yield "\nCommands that would run:"
        yield from commands
    if found.problems:
        yield "\nIt can't start:"
        yield from (f"  {one_line(problem, 2 * LONG)}" for problem in found.problems)
    yield "\nNothing was run."


def _bounds(found: DryRun) -> Iterator[str]:
    bounds, budget = found.bounds, found.plan.budget
    if not bounds.model_steps:
        yield "\nTokens, worst case: 0, no step calls a model"
        return
    price = "no price limit" if bounds.max_price is None else f"${bounds.max_price:,.2f} at most"
    steps = counted(bounds.model_steps, "model-driven step")
    yield f"\nTokens, worst case: {bounds.max_tokens:,} in {steps} ({price})"
    yield f"Model calls, worst case: {bounds.max_turns:,}, {bounds.critical_turns:,} of them in the longest chain"
    if budget and budget.max_seconds:
        yield f"Time, worst case: {budget.max_seconds:g} s"


def _needs(steps: tuple[StepNeeds, ...]) -> Iterator[str]:
    """Yield the model, agent and tools of the steps done by agents; steps with the same needs share a line."""
    kinds: dict[tuple[str, ...], list[str]] = {}
    for step in steps:
        if step.model or step.problem:
            tools = ", ".join(step.tools) or "no tools"
            state = f"UNAVAILABLE: {step.problem}" if step.problem else tools
            kinds.setdefault((step.model or "no model", step.agent, state), []).append(step.id)
    if kinds:
        yield "\nAgents and their tools:"
    for (model, agent, state), ids in kinds.items():
        who = some_of(ids, SHOWN_LEVEL)
        yield f"  {who}: {one_line(model)}{f' as {one_line(agent)}' if agent else ''}; {one_line(state, LONG)}"


def _decisions(found: DryRun) -> Iterator[str]:
    if found.plan.decisions:
        yield "\nDecisions:"
    for decision in found.plan.decisions:
        given = ", ".join(found.given.get(decision.id, ()))
        options = " / ".join(option.id for option in decision.options)
        default = decision.default if isinstance(decision.default, str) else ", ".join(decision.default or ())
        state = f"decided: {given}" if given else f"open{f', default {default}' if default else ''}"
        yield f"  {decision.id} ({options}), {state}: {one_line(decision.question, LONG)}"
