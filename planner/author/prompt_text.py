"""Prompts of the planner: its standing orders, a goal, or a plan with the step that failed; pure but for the orders."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from importlib import resources

from planner.plan.model import Plan, Step
from planner.plan.revision import RevisionRequest
from subagents.executor import KeptWork
from vibe.core.modes import MODE_CATALOG
from vibe.system.plain_text import beginning

MAX_CONTEXT = 8_000
MAX_STEP = 6_000
MAX_RESULT = 8_000
MAX_OTHERS = 20_000
MAX_PLAN = 60_000
"""Characters; a note says if text was cut."""

ATTENDED = (
    "If the goal can be read in ways that lead to different plans, and the repository does not settle it, ask the "
    "user: once, everything in one call of ask_user_question, before you plan. Do not ask what you can find out."
)
HEADLESS = (
    "No user can be asked. If the goal can be read in several ways, take the most likely one and say so in `context`, "
    'in a line that begins with "Assumption:".'
)
IN_PLACE = "Touch only the failing step, steps you add for it, and the edges of what waits for it."
WHOLE_PLAN = "The step was revised before and failed again: you may change other open steps as well, if that is needed."
REDRAFT = (
    "Hand in the whole plan with that changed, and what follows from it; the rest stays as it is, ids included. A step "
    "keeps by its id what is not yours to write, such as its model."
)
KEPT = """\
It worked in a copy of the project of its own. Nothing of that is in the project: it was not merged, and the next \
attempt does not find it. It is on the branch {branch}, and you can read it, and nothing else of it, in \
{folder!r}. It changed
{changed}"""
NO_NEW_COMMANDS = "Use no `command` or `verify` line that the plan does not have: no user is there to accept it."


def planner_prompt(name: str) -> str:
    """The standing orders for one kind of planning; reads a file of the program."""
    return resources.files("planner.author.prompts").joinpath(f"{name}.md").read_text(encoding="utf-8")


def goal_prompt(goal: str, *, attended: bool) -> str:
    """The message that opens the planning of a goal."""
    modes = "\n".join(
        f"- `{mode.value}` ({known.title}): {known.planner_guidance}" for mode, known in MODE_CATALOG.items()
    )
    doubt = ATTENDED if attended else HEADLESS
    return f"# Goal\n{goal}\n\n# Modes of steps\n{modes}\n\n# If the goal is ambiguous\n{doubt}"


def redraft_prompt(plan: Plan, document: str, sentence: str, *, attended: bool) -> str:
    """The message that opens the drafting of a proposal anew; ``document`` is the proposal as JSON."""
    return "\n\n".join((
        goal_prompt(plan.goal, attended=attended),
        f"# The plan as it is proposed\n{document}",
        f"# What the user wants changed about it\n{sentence}",
        REDRAFT,
    ))


def change_prompt(plan: Plan, statuses: Mapping[str, str], open_steps: Collection[str], sentence: str) -> str:
    """The message that opens the change of a plan that has begun, as the user asks."""
    parts = [f"# What the user wants changed\n{sentence}", f"# Goal of the whole plan\n{plan.goal}"]
    if plan.context:
        parts.append(f"# Context\n{beginning(plan.context, MAX_CONTEXT)}")
    fixed = [_line(statuses, step) for step in plan.steps if step.id not in open_steps]
    if fixed:
        parts.append(
            "# Steps that run or have ended: they stay as they are\n" + beginning("\n".join(fixed), MAX_OTHERS)
        )
    can_change = [
        f"({statuses.get(step.id, 'pending')}) {_step_text(step)}" for step in plan.steps if step.id in open_steps
    ]
    parts.append("# Steps you may change\n" + beginning("\n".join(can_change) or "none", MAX_PLAN))
    return "\n\n".join(parts)


def revision_prompt(request: RevisionRequest, *, in_place: bool, new_commands: bool) -> str:
    """Return the message that asks for a revision of a plan."""
    plan = request.plan
    failed = next(step for step in plan.steps if step.id == request.failed_step_id)
    parts = [f"# Goal of the whole plan\n{plan.goal}"]
    if plan.context:
        parts.append(f"# Context\n{beginning(plan.context, MAX_CONTEXT)}")
    parts.append(f"# The step that failed\n{_step_text(failed)}")
    parts.append("# What came of it\n" + "\n".join(_result_lines(request)))
    if request.kept is not None:
        parts.append(f"# Where its work is\n{_kept_text(request.kept)}")
    near = _neighbours(plan, failed)
    if near:
        parts.append("# Steps right before and after it\n" + "\n".join(_line(request.statuses, step) for step in near))
    others = [step for step in plan.steps if step.id != failed.id and step not in near]
    if others:
        parts.append(
            "# The other steps\n" + beginning("\n".join(_line(request.statuses, step) for step in others), MAX_OTHERS)
        )
    rules = [IN_PLACE if in_place else WHOLE_PLAN, *(() if new_commands else (NO_NEW_COMMANDS,))]
    parts.append("# What you may change\n" + "\n".join(rules))
    if request.problems:
        parts.append("# What was wrong with an earlier revision\n" + "\n".join(request.problems))
    return "\n\n".join(parts)


def _neighbours(plan: Plan, failed: Step) -> list[Step]:
    before = {edge.step for edge in failed.dependencies}
    return [step for step in plan.steps if step.id in before or any(e.step == failed.id for e in step.dependencies)]


def _step_text(step: Step) -> str:
    document = step.model_dump(mode="json", exclude_unset=True)
    return beginning(json.dumps(document, indent=1, ensure_ascii=False), MAX_STEP)


def _line(statuses: Mapping[str, str], step: Step) -> str:
    after = ", ".join(f"{e.step} {e.on}" if e.on != "completed" else e.step for e in step.dependencies)
    status = statuses.get(step.id, "pending")
    return f"- {step.id} ({step.mode.value}, {status}): {step.title}" + (f" [after {after}]" if after else "")


def _result_lines(request: RevisionRequest) -> Iterator[str]:
    result = request.result
    yield f"Outcome: {result.outcome.value}" + (f" ({result.reason})" if result.reason else "")
    if result.detail:
        yield beginning(result.detail, MAX_RESULT)
    if result.summary:
        yield f"Its last words or output:\n{beginning(result.summary, MAX_RESULT)}"
    if result.files_changed:
        yield "Files it changed: " + beginning(", ".join(result.files_changed), 1_000)


def _kept_text(kept: KeptWork) -> str:
    changed = "\n".join(f"- {path!r}" for path in kept.changed)
    return beginning(KEPT.format(branch=kept.branch, folder=str(kept.folder), changed=changed), MAX_RESULT)
