"""The plan that ``vibe plan run`` runs when it is given none."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from vibe.core.errors import EnvironmentFailure

QUICKSTART = "quickstart.json"


def quickstart_file() -> Path:
    """Return where the demonstration lies: in the installed package, or in the checkout that it runs from.

    Raises:
        EnvironmentFailure: it is in neither.
    """
    package = Path(str(resources.files("vibe")))
    for folder in (package / "examples", package.parent / "plans-examples"):
        if (folder / QUICKSTART).is_file():
            return folder / QUICKSTART
    raise EnvironmentFailure("the built-in demonstration is missing from this installation: name a plan file instead")
