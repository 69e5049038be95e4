"""FILE|ID on the command line: a plan file, or a plan that has been run."""

from __future__ import annotations

from pathlib import Path

from planner.plan.loader import YAML_SUFFIXES
from planner.store.errors import UnknownPlanError
from planner.store.folder import PlanFolder, find_plan
from vibe.cli.environment import CliEnvironment
from vibe.core.errors import UsageError


class NeitherFileNorPlanError(UsageError):
    """The reference names neither a file nor a plan."""

    def __init__(self, reference: str) -> None:
        super().__init__(
            f"{reference!r} is neither a plan file nor a plan that has run: check the path, or see `vibe plan list`"
        )


def folder_of(reference: str, env: CliEnvironment) -> PlanFolder | None:
    """Return the folder of the plan that was run; None if a file (or stdin) is meant. A file comes before an id.

    Raises:
        NeitherFileNorPlanError, AmbiguousPlanError: it is no file and no id, or that of several plans.
    """
    if reference == "-" or (env.cwd / Path(reference).expanduser()).exists():
        return None
    try:
        return find_plan(env.home, reference)
    except UnknownPlanError as error:
        if "/" in reference or Path(reference).suffix in {".json", *YAML_SUFFIXES}:
            return None
        raise NeitherFileNorPlanError(reference) from error
