"""What FILE|ID on the command line means: a plan file, or a plan that has been run."""

from __future__ import annotations

from pathlib import Path

from planner.plan_folder import PlanFolder, find_plan
from planner.store_errors import UnknownPlanError
from vibe.cli.environment import CliEnvironment


def folder_of(reference: str, env: CliEnvironment) -> PlanFolder | None:
    """The folder of the plan that was run; None if a file (or stdin) is meant. A file goes before an id.

    Raises:
        UnknownPlanError, AmbiguousPlanError: it looks like an id and is none, or that of several plans.
    """
    if reference == "-" or (env.cwd / Path(reference).expanduser()).exists():
        return None
    try:
        return find_plan(env.home, reference)
    except UnknownPlanError:
        if "/" in reference or reference.endswith(".json"):
            return None
        raise
