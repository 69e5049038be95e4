"""Chooses the sandbox that works on this machine, when the first command is to be confined."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial

from msgspec import Struct

from vibe.shell.sandbox.bubblewrap import find_bubblewrap
from vibe.shell.sandbox.landlock import find_landlock
from vibe.shell.sandbox.port import Sandbox, SandboxUnprovenError
from vibe.shell.sandbox.settings import SandboxMode
from vibe.system.errors import EnvironmentFailure, error_as

BACKENDS = ("bubblewrap", "landlock")
"""Names of the kinds of sandboxes, in order of preference."""


class SandboxChoice(Struct, frozen=True, kw_only=True):
    """A sandbox, or None and the reason why. ``passed_over`` says why the preferred ones don't work."""

    sandbox: Sandbox | None
    reason: str
    passed_over: str = ""


def choose_sandbox(mode: SandboxMode, environ: Mapping[str, str], backends: Sequence[str] = BACKENDS) -> SandboxChoice:
    """Return the first of ``backends`` that works. ``environ`` is vibe's own environment.

    This starts processes, so don't call it on an event loop.

    Raises:
        EnvironmentFailure: a sandbox is required and none works.
        SandboxUnprovenError: a temporary failure left the question open.
    """
    if mode is SandboxMode.OFF:
        return SandboxChoice(sandbox=None, reason="[sandbox] mode is off")
    if sys.platform.startswith("linux"):
        with error_as((OSError, MemoryError), lambda error: SandboxUnprovenError(str(error))):
            found, problem = _first_that_works(backends, environ)
    else:
        found, problem = None, "available on Linux only"
    if found is not None:
        return SandboxChoice(sandbox=found, reason=found.name, passed_over=problem)
    if mode is SandboxMode.REQUIRED:
        remedy = 'allow user namespaces, or set [sandbox] mode = "auto" to run without one'
        raise EnvironmentFailure(f"no sandbox works here ({problem}): {remedy}")
    return SandboxChoice(sandbox=None, reason=problem)


def _first_that_works(backends: Sequence[str], environ: Mapping[str, str]) -> tuple[Sandbox | None, str]:
    problems: list[str] = []
    finders = zip(BACKENDS, (partial(find_bubblewrap, environ), find_landlock), strict=True)
    for found in (find() for name, find in finders if name in backends):
        if not isinstance(found, str):
            return found, "; ".join(problems)
        problems.append(found)
    return None, "; ".join(problems) or "none is allowed"
