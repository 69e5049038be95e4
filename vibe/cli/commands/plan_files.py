"""``vibe plan validate|show|graph|schema|diff``: look at plans without running them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from planner.plan.diagnostics import PlanInvalidError, Problem
from planner.plan.loader import JSON, MAX_BYTES, YAML_SUFFIXES, LoadedPlan, load_plan, plan_json_schema, read_plan_file
from planner.plan.model import Decision, Plan, Step, StepStatus
from planner.plan.status import MARKS, REUSED_MARK, readable_title
from planner.report.graph_text import dot, mermaid
from planner.reuse.reuse import PlanDiff, diff
from planner.state.state import State
from planner.store.current_plan import current_state, open_decisions
from planner.store.errors import UnknownPlanError
from planner.store.folder import PlanFolder, find_plan
from vibe.app.plan.reuse import comparable
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.front.next_command import decision_documents, decision_lines
from vibe.front.plan_listing import revision_documents, revision_lines
from vibe.system.errors import UsageError
from vibe.system.plain_text import counted, one_line

WHERE_LENGTH = 1_000


class _Found(Struct, frozen=True, kw_only=True):
    """A plan, and its state if it has been run."""

    loaded: LoadedPlan
    state: State = field(default_factory=State)
    plan_id: str = ""
    open_decisions: tuple[Decision, ...] = ()

    @property
    def statuses(self) -> dict[str, StepStatus]:
        """The status of each step; empty if the plan has not run."""
        return {step_id: step.status for step_id, step in self.state.steps.items()}


def run_schema(_args: Arguments, env: CliEnvironment) -> None:
    """Print the JSON Schema of plan files."""
    env.write_json(plan_json_schema())


def run_graph(args: Arguments, env: CliEnvironment) -> None:
    """Draw a plan's steps and their dependencies."""
    env.write_lines([_draw(args.format, _find(args.plan, env)).rstrip("\n")])


def _draw(form: str, found: _Found) -> str:
    statuses, loaded = found.statuses or None, found.loaded.folded(found.statuses)
    plan = loaded.plan
    if form == "mermaid":
        return mermaid(plan, statuses)
    if form == "dot":
        return dot(plan, statuses)
    if form == "svg":
        from planner.report.graph_svg import Shown, svg  # noqa: PLC0415  only a drawing needs the layout

        reused = found.state.reused()
        return svg(plan, loaded.dag, Shown(statuses=statuses, reused=reused) if statuses else None)
    from vibe.front.plan_graph import plan_text  # noqa: PLC0415  as above

    return plan_text(plan, found.state.steps if statuses else None)


def run_validate(args: Arguments, env: CliEnvironment) -> int:
    """Report every problem of a plan file."""
    try:
        loaded = read_plan(args.plan, env)
    except PlanInvalidError as error:
        if args.output == "text":
            raise
        problems = [_as_document(problem) for problem in error.problems]
        env.write_json({"valid": False, "problems": problems})
        return ExitCode.USAGE
    found = (
        f"{one_line(loaded.where, WHERE_LENGTH)} is a valid plan: {counted(len(loaded.plan.steps), 'step')}, "
        f"at most {loaded.width} in parallel, longest chain {len(loaded.dag.critical_path())}"
    )
    env.answer(args, {"valid": True, "problems": []}, [found])
    for step_id, barred in loaded.barred_writes().items() if args.output == "text" else ():
        names = one_line(", ".join(barred), WHERE_LENGTH)
        env.tell(f"note: step {step_id!r}: what `writes` names is refused or asked about each time: {names}")
    return ExitCode.DONE


def _as_document(problem: Problem) -> dict[str, Any]:
    where = {"line": problem.at.line, "column": problem.at.column} if problem.at else {"line": None, "column": None}
    return {"path": problem.path, "message": problem.message, "fix": problem.fix, **where}


def _find(reference: str, env: CliEnvironment) -> _Found:
    """Return the plan in a file, or a plan that has run, by its id."""
    folder = folder_of(reference, env)
    if folder is None:
        return _Found(loaded=read_plan(reference, env))
    loaded, state = current_state(folder)
    waiting = open_decisions(loaded.plan, state)
    return _Found(loaded=loaded, state=state, plan_id=folder.plan_id, open_decisions=waiting)


def run_show(args: Arguments, env: CliEnvironment) -> None:
    """Print a plan: its steps, and their status if it has run."""
    found = _find(args.plan, env)
    env.answer(args, _shown_document(found), _shown(found))


def _shown_document(found: _Found) -> dict[str, Any]:
    plan, statuses, reused = found.loaded.plan, found.statuses, found.state.reused()
    shown = plan.model_dump(mode="json", exclude={"defaults"}, exclude_defaults=True)  # already applied to the steps
    document: dict[str, Any] = shown | {"version": plan.version}
    for step in document["steps"]:
        step["status"] = statuses.get(step["id"], StepStatus.PENDING).value
        if step["id"] in reused:
            step["reused_from"] = reused[step["id"]]
    if found.plan_id:
        document["open_decisions"] = decision_documents(found.plan_id, found.open_decisions)
        document["revisions"] = revision_documents(found.state.revisions)
    return document


def _shown(found: _Found) -> Iterator[str]:
    plan, statuses, reused = found.loaded.plan, found.statuses, found.state.reused()
    yield from (one_line(plan.goal, 400), *_about(plan), "")
    for step in found.loaded.folded(statuses).plan.steps:
        status = statuses.get(step.id, StepStatus.PENDING)
        after = ", ".join(f"{d.step} {d.on}" if d.on != "completed" else d.step for d in step.dependencies)
        mark = REUSED_MARK if step.id in reused else MARKS[status.value]
        yield f"{mark} {step.id}: {one_line(readable_title(step.title), 400)} [{step.mode.value}]"
        yield from (f"    {name}: {one_line(value, 400)}" for name, value in _details(step, after))
        yield from [f"    reused from plan {reused[step.id]}"] if step.id in reused else ()
    yield from revision_lines(found.state.revisions)
    yield from decision_lines(found.plan_id, found.open_decisions)


def _about(plan: Plan) -> list[str]:
    """Return lines about the plan's inputs, budget and decisions."""
    given = {name: json.dumps(value) for name, value in plan.values().items()}
    budget = plan.budget.model_dump(exclude_none=True) if plan.budget else {}
    lines = [f"budget: {', '.join(f'{name} {value}' for name, value in budget.items())}"] if budget else []
    if plan.max_parallel_steps:
        lines.append(f"at most {counted(plan.max_parallel_steps, 'step')} in parallel")
    lines += [one_line(f"input {o.name} ({o.type}): {given.get(o.name, 'must be given')}", 400) for o in plan.inputs]
    for decision in plan.decisions:
        options = ", ".join(option.id for option in decision.options)
        chosen = [decision.default] if isinstance(decision.default, str) else decision.default or []
        default = f", default {', '.join(chosen)}" if chosen else ""
        lines.append(f"decision {decision.id}: {one_line(decision.question, 400)} ({options}{default})")
    return lines


def _details(step: Step, after: str) -> list[tuple[str, str]]:
    taken = (f"{decision} is {' or '.join(options)}" for decision, options in (step.when or {}).items())
    each = step.for_each
    limits = {name: getattr(step, name) for name in ("max_tokens", "max_turns", "max_price", "timeout_seconds")}
    details = [
        ("after", after),
        ("for each item of", each.model_dump_json(exclude_defaults=True, by_alias=True) if each else ""),
        ("waits for the decision", step.decision or ""),
        ("only if", "; ".join(taken)),
        ("command", step.command or ""),
        ("writes", ", ".join(step.writes or ())),
        ("verify", "; ".join(step.verify)),
        ("workspace", step.workspace if step.workspace != "shared" else ""),
        ("needs", ", ".join(f"{name}={need}" for name, need in step.needs.items())),
        ("agent", step.agent or ""),
        ("model", ", then ".join(step.models)),
        ("allowed tools", ", ".join(step.allowed_tools or ())),
        ("denied tools", ", ".join(step.denied_tools)),
        ("limits", ", ".join(f"{name} {value}" for name, value in limits.items() if value is not None)),
        ("retries", str(step.retries or "")),
        ("tags", ", ".join(step.tags)),
        ("on failure", step.on_failure if step.on_failure != "stop" else ""),
        ("side effects", "yes" if step.side_effects else ""),
    ]
    return [(name, value) for name, value in details if value]


def run_diff(args: Arguments, env: CliEnvironment) -> None:
    """Print the differences between two plans."""
    one, other = (folder_of(reference, env) or read_plan(reference, env) for reference in (args.one, args.other))
    found = diff(*comparable(one, other, env.environ))
    env.answer(args, found.as_document(), _diff_lines(found))


def _diff_lines(found: PlanDiff) -> list[str]:
    lines = [f"= {step_id}{_limit_note(found, step_id)}" for step_id in found.unchanged]
    lines += [f"~ {step_id}: {change.text}" for step_id, change in found.changed.items()]
    lines += [f"+ {step_id}" for step_id in found.added]
    lines += [f"- {step_id}" for step_id in found.removed]
    counts = (f"{len(getattr(found, kind))} {kind}" for kind in ("unchanged", "changed", "added", "removed"))
    return [*lines, ", ".join(counts)]


def _limit_note(found: PlanDiff, step_id: str) -> str:
    names = found.limits.get(step_id)
    return f" (only limits differ: {', '.join(names)})" if names else ""


def folder_of(reference: str, env: CliEnvironment) -> PlanFolder | None:
    """Return the folder of a plan that has run, or None if the reference is a file, a plan's name or ``-``.

    A file wins over an id of the same name.

    Raises:
        UsageError: it is neither a file nor an id, or matches the ids of several plans.
    """
    if reference == "-" or os.path.exists(env.path(reference)):
        return None
    try:
        return find_plan(env.home, reference)
    except UnknownPlanError as error:
        if "/" in reference or Path(reference).suffix in {".json", *YAML_SUFFIXES}:
            return None
        from vibe.app.plan.library import named_plans  # noqa: PLC0415  only needed for names

        if reference in named_plans(env, env.cwd, trust=False):
            return None
        problem = "is neither a plan file nor a plan that has run: check the path, or see `vibe plan list`"
        raise UsageError(f"{reference!r} {problem}") from error


def read_plan(file: str | None, env: CliEnvironment) -> LoadedPlan:
    """Return the plan that a FILE argument means: ``-`` for stdin, or else as ``path_of``.

    Raises:
        PlanInvalidError: it is no valid plan.
        UsageError: as ``path_of``.
    """
    if file == "-":
        return load_plan(env.stdin.buffer.read(MAX_BYTES + 1), where="standard input", form=JSON)
    return read_plan_file(path_of(file, env))


def path_of(file: str | None, env: CliEnvironment, workdir: Path | None = None, *, trust: bool = False) -> Path:
    """Return the file that a FILE argument means: a path or a plan's name; None means the built-in demonstration.

    Raises:
        UsageError: no plan has that name, or it belongs to a project that isn't trusted.
    """
    path = env.path(file or "")
    if file is not None and ({"/", "."}.intersection(file) or (os.path.exists(path) and not os.path.isdir(path))):
        return path
    from vibe.app.plan.library import plan_named  # noqa: PLC0415  only needed for names

    return plan_named(file, env, workdir or env.cwd, trust=trust)
