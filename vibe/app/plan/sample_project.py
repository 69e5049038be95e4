"""The project of a demonstration plan: a fresh copy of it, and its end."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from planner.plan.model import Sample
from planner.store.folder import RunSettings
from vibe.system.errors import EnvironmentFailure, UsageError

_PREFIX = "vibe-sample-"


def copy_sample(sample: Sample, plan_folder: Path, base: str | None) -> Path:
    """Copy a sample's project into a new temporary folder, below ``base`` or where the system wants it.

    Return the copy.

    Raises:
        UsageError: the project is not there.
        EnvironmentFailure: the copy can't be made.
    """
    project = plan_folder / sample.project
    if not project.is_dir():
        raise UsageError(f"the plan's sample project {str(project)!r} is not a folder: keep it beside the plan file")
    folder: str | None = None
    try:
        folder = tempfile.mkdtemp(prefix=_PREFIX, dir=base)
        workspace = Path(folder) / project.name
        shutil.copytree(project, workspace, ignore=shutil.ignore_patterns("__pycache__"))
    except OSError as error:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        raise EnvironmentFailure(f"the sample project can't be copied to a temporary folder: {error}") from error
    return workspace


def sample_copy(settings: RunSettings) -> Path | None:
    """The temporary folder in which a demonstration's plan worked, if it is there and is one of ours."""
    folder = Path(settings.workspace).parent
    if settings.sample and folder.name.startswith(_PREFIX):
        with suppress(OSError):
            found = folder.lstat()
            return folder if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() else None
    return None


def remove_sample_copy(folder: Path) -> None:
    """Remove such a folder.

    Raises:
        EnvironmentFailure: the disk refuses.
    """
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise EnvironmentFailure(f"the sample's copy {str(folder)!r} can't be removed: {error.strerror}") from error
