"""The built-in demonstration: a plan with a small project, and a script in place of a model."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from vibe.system.errors import EnvironmentFailure

QUICKSTART = "quickstart.json"
WATCHED_SLOWED = 10.0
"""The factor by which the script's delays are lengthened if a person watches: 20 s in all."""


def quickstart_file() -> Path:
    """Return the file of the built-in demonstration, in the installed package or in the checkout it runs from.

    Raises:
        EnvironmentFailure: If it is in neither.
    """
    package = Path(str(resources.files("vibe")))
    for folder in (package / "examples", package.parent / "plans-examples"):
        if (folder / QUICKSTART).is_file():
            return folder / QUICKSTART
    raise EnvironmentFailure("the built-in demonstration is missing from this installation: name a plan file instead")
