"""Plans by name: a trusted project's, the user's own, and those that come with vibe."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from planner.plan.diagnostics import PlanInvalidError, Suggester, listed, quoted
from planner.plan.loader import YAML_SUFFIXES, read_plan_file
from vibe.app.engine.host import Host
from vibe.core.config.paths import VibePaths, find_project_dir
from vibe.core.config.trust import trusting
from vibe.system.errors import EnvironmentFailure, UsageError
from vibe.system.files import entries_of
from vibe.system.own_places import user_home_of

DEMONSTRATION = "demo"
QUICKSTART = "quickstart.json"
WATCHED_SLOWED = 10.0
"""The factor by which the demonstration's delays are lengthened if a person watches: 20 s in all."""
MOST = 500
"""The most names in a folder that are looked at."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_SUFFIXES = (".json", *sorted(YAML_SUFFIXES))


class NamedPlan(Struct, frozen=True, kw_only=True):
    """A plan that can be run by its name. ``is_trusted`` is False for that of a project whose files are not loaded."""

    name: str
    source: Literal["project", "user", "built-in"]
    path: Path
    is_trusted: bool = True

    def as_document(self) -> dict[str, Any]:
        """Return it as JSON types, with the plan's goal and inputs if it may be read. Reads the file."""
        document: dict[str, Any] = {"name": self.name, "source": self.source, "path": str(self.path)}
        document |= {"trusted": self.is_trusted, "goal": None, "inputs": [], "problem": None}
        if not self.is_trusted:
            return document
        try:
            plan = read_plan_file(self.path).plan
        except PlanInvalidError as error:
            return document | {"problem": str(error)}
        return document | {"goal": plan.goal, "inputs": [one.model_dump(mode="json") for one in plan.inputs]}


def named_plans(host: Host, workdir: Path, *, trust: bool) -> Mapping[str, NamedPlan]:
    """Return the plans by name.

    A project's plan wins over the user's own, and that over a built-in one. Lists folders.

    With ``trust``, the project around ``workdir`` is trusted this once.
    """
    user_home = user_home_of(host.environ)
    found: dict[str, NamedPlan] = {}
    if project := find_project_dir(workdir, home=host.home, user_home=user_home):
        trusted = trusting(host.home, workdir, user_home, trust_workdir=trust)(project.parent)
        for name, path in _plans_in(project / "plans"):
            found.setdefault(name, NamedPlan(name=name, source="project", path=path, is_trusted=trusted))
    for name, path in _plans_in(VibePaths(host.home).library):
        found.setdefault(name, NamedPlan(name=name, source="user", path=path))
    own = _plans_in(Path(str(resources.files("vibe.app.plan").joinpath("builtin"))))
    for name, path in ((DEMONSTRATION, quickstart_file()), *own):
        found.setdefault(name, NamedPlan(name=name, source="built-in", path=path))
    return found


def plan_named(name: str | None, host: Host, workdir: Path, *, trust: bool) -> Path:
    """Return the file of the plan of that name; without a name, of the built-in demonstration.

    Raises:
        UsageError: there is none, or it belongs to a project that is not trusted.
    """
    if name is None:
        return quickstart_file()
    known = named_plans(host, workdir, trust=trust)
    if name not in known:
        fix = Suggester().fix(name, known, f"the plans by name: {listed(known)}")
        raise UsageError(f"{quoted(name)} is not a plan file, and no plan has that name; {fix}")
    plan = known[name]
    if not plan.is_trusted:
        where = "is in .vibe/plans of a folder that is not trusted"
        raise UsageError(f"plan {name!r} {where}: run with --trust, or vibe trust add")
    return plan.path


def quickstart_file() -> Path:
    """Return the file of the built-in demonstration, in the installed package or in the checkout it runs from.

    Raises:
        EnvironmentFailure: it is in neither.
    """
    package = Path(str(resources.files("vibe")))
    for folder in (package / "examples", package.parent / "plans-examples"):
        if (folder / QUICKSTART).is_file():
            return folder / QUICKSTART
    raise EnvironmentFailure("the built-in demonstration is missing from this installation: name a plan file instead")


def _plans_in(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the plan files of a folder by name. JSON comes first."""
    files = [Path(entry.path) for entry in entries_of(folder)[:MOST] if entry.is_file()]
    plans = [file for file in files if file.suffix in _SUFFIXES and _NAME.fullmatch(file.stem)]
    yield from ((file.stem, file) for file in sorted(plans, key=lambda file: (file.stem, _SUFFIXES.index(file.suffix))))
