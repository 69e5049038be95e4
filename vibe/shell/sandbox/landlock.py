"""Landlock: the kernel's own file rules, for where no namespaces can be had.

A launcher puts them on and steps aside.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from vibe.shell.sandbox.mounts import MEMORY, RUN, shared_folders, shown_in_shared
from vibe.shell.sandbox.port import Confined, ReadOnlyUnavailableError, Sandbox, SandboxPolicy, bounded
from vibe.shell.sandbox.probe import TRUE, failure_of
from vibe.shell.sandbox.secrets import confined_environ
from vibe.shell.sandbox.system_calls import OF_NETWORKS, call_filter
from vibe.shell.sandbox.temporary import prepare_temp

LAUNCHER = (sys.executable, "-I", "-S", str(Path(__file__).with_name("_launch.py")))
"""The words that a confined command begins with. Whoever starts many of them need not start an
interpreter for each (see ``starter_program``)."""
LIMITS = (
    "the modes of files outside can be changed, memory that your programs share is shared with it, Unix sockets and "
    "terminals can't be opened, and what decides what runs later (settings and hooks of git, settings and tools of "
    "vibe) can be changed while a command runs and is put back once it has ended, "
    "so run neither git nor vibe there meanwhile"
)
BEFORE = (
    (3, "files outside that you may write can be emptied (a kernel from 6.2 on prevents that)"),
    (6, "other processes of yours can be signalled (a kernel from 6.12 on prevents that)"),
)
"""Things that the kernel can't confine with a version below that."""
NO_FILTER = f"the system calls of {platform.machine()} are not known"
NO_LOOPBACK = "no network at all, not even localhost, unless it is turned on"


def landlock(version: int, *, loopback: bool) -> Sandbox:
    """Confines with Landlock rules and a filter of system calls; ``version`` is that of the kernel's interface.

    Hidden files are not allowed rather than absent, and names can be listed everywhere. Where no network namespace can
    be had, there is no network at all. Nothing is frozen: its rules only add, and what is allowed in a folder is
    allowed in all below it. A program that may make a file with something in it at the top of a workspace may write
    each file of the workspace: to keep one from it, all would have to be kept from making files beside it, git in its
    own folder first.
    """
    lacking = [limit for below, limit in BEFORE if version < below]
    return Sandbox(
        name=f"Landlock (version {version})",
        limits="; ".join([LIMITS, *lacking, *([] if loopback else [NO_LOOPBACK])]),
        has_namespaces=False,
        wrap=partial(_wrapped, loopback=loopback),
    )


def _wrapped(argv: Sequence[str], environ: Mapping[str, str], policy: SandboxPolicy, *, loopback: bool) -> Confined:
    """The command, started by a launcher that confines itself first.

    Raises:
        ReadOnlyUnavailableError: it is to read and no more.
    """
    if policy.read_only:
        raise ReadOnlyUnavailableError("that takes bubblewrap")
    prepare_temp(policy.temp, policy.box)
    closed, opened = (call_filter(families, alone=False) for families in ((), OF_NETWORKS))
    rules = {
        "list": ["/"],
        "hidden": [*map(str, policy.hidden), str(policy.box), *_shared(policy)],
        "shown": [*map(str, shown_in_shared(policy, shared_folders()))],
        "read": [*map(str, policy.readable)],
        "write": [*map(str, policy.writable), str(policy.temp)],
        "network": policy.network.value,
        "loopback": loopback,
        "calls": {"closed": closed.hex(), "opened": opened.hex()},
        "records": str(policy.records or ""),
    }
    # There is no namespace to count its processes in: the bound would count all of the user's.
    variables = confined_environ(environ, policy.temp)
    argv = bounded(argv, variables, replace(policy.bounds, processes=0))
    return Confined(argv=(*LAUNCHER, json.dumps(rules), *argv), environ=variables)


def _shared(policy: SandboxPolicy) -> Iterator[str]:
    """Yield the folders that others share, but for what a program may read or write as a whole."""
    given = {*policy.writable, *policy.readable}
    yield from (str(folder) for folder in shared_folders() if folder not in {RUN, MEMORY} and folder not in given)


def find_landlock() -> Sandbox | str:
    """Landlock where the kernel has it, else why not. Starts a process, so not on an event loop.

    Raises:
        SandboxUnprovenError: it could not be found out.
    """
    if not sys.platform.startswith("linux"):
        return f"Landlock is part of Linux, and this is {platform.system()}"
    from vibe.shell.sandbox import _launch

    if not call_filter((), alone=False):
        return f"Landlock: {NO_FILTER}"
    version = _launch.landlock_version()
    if version == 0:
        return "Landlock is not part of this kernel"
    connecting = "import socket; a = socket.create_server(('127.0.0.1', 0)); socket.create_connection(a.getsockname())"
    found = landlock(version, loopback=True)
    if failure_of(found, [sys.executable, "-I", "-S", "-c", connecting]):
        # A network of its own may be refused, or given and of no use: then it is not asked for.
        found = landlock(version, loopback=False)
        if why := failure_of(found, TRUE):
            return f"Landlock: {why}"
    return found
