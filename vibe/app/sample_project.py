"""The project of a demonstration plan: a fresh copy of it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from planner.model import Sample
from vibe.core.errors import EnvironmentFailure, UsageError


def copy_sample(sample: Sample, plan_folder: Path) -> Path:
    """Copy a sample's project into a new temporary folder and return the copy.

    Raises:
        UsageError: the project is not there.
        EnvironmentFailure: the copy can't be made.
    """
    project = plan_folder / sample.project
    if not project.is_dir():
        raise UsageError(f"the plan's sample project {str(project)!r} is no folder: keep it beside the plan file")
    folder: str | None = None
    try:
        folder = tempfile.mkdtemp(prefix="vibe-sample-")
        workspace = Path(folder) / project.name
        shutil.copytree(project, workspace, ignore=shutil.ignore_patterns("__pycache__"))
    except OSError as error:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        raise EnvironmentFailure(f"the sample project can't be copied to a temporary folder: {error}") from error
    return workspace
