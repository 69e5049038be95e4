"""``vibe plan clean``: removes worktrees, branches and sample copies of ended plans."""

from __future__ import annotations

from collections.abc import Iterator

from vibe.app.plan.clean import PlanRemains, clean_plans
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.cli.parser import CommandLineError
from vibe.system.plain_text import one_line


def run(args: Arguments, env: CliEnvironment) -> None:
    """Clean the named plans, or all of them, and list what was removed."""
    if bool(args.plans) == args.all:
        raise CommandLineError("name the plans to clean, or pass --all")
    cleaned = clean_plans(env, args.plans, cwd=env.cwd, dry_run=args.dry_run, records=args.records)
    lines = [line for one in cleaned for line in _lines(one, "would remove" if args.dry_run else "removed")]
    env.answer(args, [_document(one) for one in cleaned], lines if cleaned else ["nothing to clean"])


def _lines(one: PlanRemains, verb: str) -> Iterator[str]:
    if one.kept_because:
        yield f"{one.plan_id}: left alone, {one.kept_because}"
        return
    removed = [("worktree", path) for path in one.found.worktrees]
    removed += [("branch", branch) for branch in one.found.branches]
    removed += [("the sample's copy", one.sample), ("the record", one.record)]
    for what, name in removed:
        if name is not None:
            yield f"{one.plan_id}: {verb} {what} {one_line(str(name), 1_000)}"


def _document(one: PlanRemains) -> dict[str, object]:
    return {
        "plan_id": one.plan_id,
        "worktrees": [str(path) for path in one.found.worktrees],
        "branches": list(one.found.branches),
        "sample": str(one.sample) if one.sample else None,
        "record": str(one.record) if one.record else None,
        "kept_because": one.kept_because or None,
    }
