"""Loads what installed packages add to vibe through three groups of entry points; see docs/guide/extending.md."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from vibe.system.errors import EnvironmentFailure, UsageError, VibeError, closest, did_you_mean

BACKENDS = "vibe.backends"
EXECUTORS = "vibe.executors"
LISTENERS = "vibe.listeners"


def extension_names(group: str) -> list[str]:
    """Return the names that installed packages register in a group; reads files."""
    from importlib.metadata import entry_points  # noqa: PLC0415  only for what an extension is asked for

    return sorted({point.name for point in entry_points(group=group)})


def make_extension(group: str, name: str, *given: object) -> Any:
    """Import the extension with this name and call it with ``given``; return what it makes.

    Raises:
        UsageError: no installed package registers that name.
        EnvironmentFailure: importing or calling it failed.
    """
    return load_extension(group, name)(*given)


def load_extension(group: str, name: str) -> Callable[..., Any]:
    """Import the extension with this name and return it as a function whose errors are reported clearly; blocks.

    Raises:
        UsageError: no installed package registers that name.
        EnvironmentFailure: importing it failed.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415  only for what an extension is asked for

    point = next(iter(entry_points(group=group, name=name)), None)
    if point is None:
        known = extension_names(group)
        hint = did_you_mean(closest(name, known), f"there are: {', '.join(known) or 'none'}")
        raise UsageError(f"no installed package has {name!r} among its {group}: {hint}")
    where = f"{name!r} of {group} can't be made by {point.value}"
    with _reporting(where):
        loaded = point.load()

    def make(*given: object) -> Any:
        with _reporting(where):
            return loaded(*given)

    return make


@contextmanager
def _reporting(where: str) -> Generator[None]:
    """Turn any error of an extension into an EnvironmentFailure that says ``where`` it came from."""
    try:
        yield
    except VibeError:
        raise
    except Exception as error:
        problem = f"{where} ({type(error).__name__}: {error})"
        raise EnvironmentFailure(f"{problem}: mend or install its package anew, or leave it out") from error
