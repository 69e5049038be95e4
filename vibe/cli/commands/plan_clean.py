"""``vibe plan clean``: remove worktrees, branches and sample copies of ended plans."""

from __future__ import annotations

import argparse

from vibe.app.plan.clean import Cleaned, clean_plans
from vibe.cli.environment import CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.cli.parser import CommandLineError
from vibe.front.event_text import one_line


def run(args: argparse.Namespace, env: CliEnvironment) -> int:
    """Clean the plans named, or all, and list what was removed."""
    if bool(args.plans) == args.all:
        raise CommandLineError("name the plans to clean, or pass --all")
    cleaned = clean_plans(env.host, args.plans, cwd=env.cwd, dry_run=args.dry_run, records=args.records)
    if args.output == "json":
        env.write_json([_document(one) for one in cleaned])
        return ExitCode.DONE
    for one in cleaned:
        if one.kept_because:
            env.stdout.write(f"{one.plan_id}: left alone, {one.kept_because}\n")
            continue
        verb = "would remove" if args.dry_run else "removed"
        for path in one.found.worktrees:
            env.stdout.write(f"{one.plan_id}: {verb} worktree {one_line(str(path), 1_000)}\n")
        for branch in one.found.branches:
            env.stdout.write(f"{one.plan_id}: {verb} branch {one_line(branch, 1_000)}\n")
        if one.sample is not None:
            env.stdout.write(f"{one.plan_id}: {verb} the sample's copy {one_line(str(one.sample), 1_000)}\n")
        if one.record is not None:
            env.stdout.write(f"{one.plan_id}: {verb} the record {one_line(str(one.record), 1_000)}\n")
    if not cleaned:
        env.stdout.write("nothing to clean\n")
    return ExitCode.DONE


def _document(one: Cleaned) -> dict[str, object]:
    return {
        "plan_id": one.plan_id,
        "worktrees": [str(path) for path in one.found.worktrees],
        "branches": list(one.found.branches),
        "sample": str(one.sample) if one.sample else None,
        "record": str(one.record) if one.record else None,
        "kept_because": one.kept_because or None,
    }
