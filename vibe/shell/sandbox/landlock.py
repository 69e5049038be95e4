"""Confines commands with Landlock, the kernel's own rules for files, on machines that allow no namespaces.

A launcher applies the rules to itself and then becomes the command.
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
from vibe.shell.sandbox.port import ReadOnlyUnavailableError, Sandbox, SandboxPolicy, SandboxRun, bounded
from vibe.shell.sandbox.probe import TRUE, failure_of
from vibe.shell.sandbox.secrets import confined_environ
from vibe.shell.sandbox.system_calls import NETWORK_FAMILIES, call_filter
from vibe.shell.sandbox.temporary import prepare_temp

LAUNCHER = (sys.executable, "-I", "-S", str(Path(__file__).with_name("_launch.py")))
"""The words that a confined command begins with. ``starter_program`` runs the launcher without a new interpreter."""
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
"""Limits of kernels whose version of Landlock is below the given one."""
NO_FILTER = f"the system calls of {platform.machine()} are not known"
NO_LOOPBACK = "no network at all, not even localhost, unless it is turned on"


def landlock(version: int, *, loopback: bool) -> Sandbox:
    """Return the sandbox that uses Landlock rules and a filter of system calls.

    ``version`` is that of the kernel's interface. Hidden files are denied rather than absent, and names can be listed
    everywhere. Without a network namespace (``loopback``) there is no network at all.

    Nothing can be frozen, because rules only add rights, and rights to a folder apply to everything below it. A program
    that may create a file with contents at the top of a workspace may write every file in the workspace. To protect a
    single file, all programs would have to be kept from creating files beside it, beginning with git in its own folder.
    """
    lacking = [limit for below, limit in BEFORE if version < below]
    return Sandbox(
        name=f"Landlock (version {version})",
        limits="; ".join([LIMITS, *lacking, *([] if loopback else [NO_LOOPBACK])]),
        has_namespaces=False,
        wrap=partial(_wrapped, loopback=loopback),
    )


def _wrapped(argv: Sequence[str], environ: Mapping[str, str], policy: SandboxPolicy, *, loopback: bool) -> SandboxRun:
    """Return the command started by a launcher, which confines itself first.

    Raises:
        ReadOnlyUnavailableError: the policy is ``read_only``, which Landlock can't enforce.
    """
    if policy.read_only:
        raise ReadOnlyUnavailableError("that takes bubblewrap")
    prepare_temp(policy.temp, policy.box)
    closed, opened = (call_filter(families, alone=False) for families in ((), NETWORK_FAMILIES))
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
    # Without a namespace, a limit of processes would count all the user's processes.
    variables = confined_environ(environ, policy.temp)
    argv = bounded(argv, variables, replace(policy.bounds, processes=0))
    return SandboxRun(argv=(*LAUNCHER, json.dumps(rules), *argv), environ=variables)


def _shared(policy: SandboxPolicy) -> Iterator[str]:
    """Yield the folders shared with other programs, except for those the command may read or write as a whole."""
    given = {*policy.writable, *policy.readable}
    yield from (str(folder) for folder in shared_folders() if folder not in {RUN, MEMORY} and folder not in given)


def find_landlock() -> Sandbox | str:
    """Return the sandbox with Landlock if the kernel supports it, else why not.

    This starts a process, so don't call it on an event loop.

    Raises:
        SandboxUnprovenError: a temporary failure left the question open.
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
        # A network of its own may be refused, or be granted but not work. Then it isn't asked for.
        found = landlock(version, loopback=False)
        if why := failure_of(found, TRUE):
            return f"Landlock: {why}"
    return found
