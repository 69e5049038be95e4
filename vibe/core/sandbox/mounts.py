"""The file system as a confined program sees it, as options of ``bwrap``: later ones lie over earlier ones."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from vibe.core.sandbox.control import OF_GIT
from vibe.core.sandbox.port import Network, SandboxPolicy
from vibe.core.sandbox.secrets import EMPTY, PRIVATE_TEMP, sockets_of_others

SHARED_TEMP = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108  they are what is replaced
PRIVATE_TEMP_BYTES = 64 * 1024 * 1024
RESOLVER = Path("/etc/resolv.conf")
RUN = Path("/run")
SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "opt", "nix", "gnu")
"""All that a program that only reads sees beside its workspace, of the folders in ``/``."""
NOTHING = "/dev/null"
"""The device that lies over a file that must not be read; it can't be opened there."""


def file_system(policy: SandboxPolicy, *, private_proc: bool) -> Iterator[str]:
    """The mounts of a policy, with a ``/proc`` of its own processes or an empty one."""
    devices = ("--dev", "/dev", *(("--proc", "/proc") if private_proc else ("--tmpfs", "/proc")))
    return _only_reading(policy, devices) if policy.read_only else _working(policy, devices)


def _only_reading(policy: SandboxPolicy, devices: Iterable[str]) -> Iterator[str]:
    """Programs and their settings, the workspace, and a temporary folder in memory."""
    yield from devices
    for name in SYSTEM:
        path = Path("/", name)
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        elif path.is_dir():
            yield from ("--ro-bind", str(path), str(path))
    yield from ("--size", str(PRIVATE_TEMP_BYTES), "--tmpfs", PRIVATE_TEMP)
    shown = [path for path in policy.readable if path.exists()]
    yield from _bound("--ro-bind", shown)
    seen = [*shown, *(Path("/", name) for name in SYSTEM)]
    for path in (*policy.hidden, *sockets_of_others()):
        if any(holds(folder, path) for folder in seen):
            yield from _emptied(path)
    yield from ("--remount-ro", "/")


def _working(policy: SandboxPolicy, devices: Iterable[str]) -> Iterator[str]:
    """Everything, read-only but for what is writable, without what is hidden."""
    yield from ("--ro-bind", "/", "/")
    yield from devices
    writable = [path for path in policy.writable if path.exists()]
    if not any(holds(shared, path) for shared in SHARED_TEMP for path in writable):
        for shared in SHARED_TEMP:
            if shared.is_dir() and not shared.is_symlink():
                yield from ("--bind", str(policy.temp), str(shared))
    yield from _runtime_folder(policy.network)
    for path in policy.hidden:
        yield from _masked(path, policy.temp)
    elsewhere = (RUN, *SHARED_TEMP, *policy.hidden, *writable)
    for path in dict.fromkeys(sockets_of_others()):
        if not any(holds(folder, path) for folder in elsewhere):
            yield from _emptied(path)
    yield from _bound("--bind", writable)
    for path in _below(policy.hidden, writable):
        yield from _masked(path, policy.temp)
    yield from _bound("--ro-bind", [path for path in policy.readable if path.exists()])
    yield from _bound("--bind", [policy.temp])
    frozen = [path for path in _below(policy.frozen, writable) if path.exists()]
    yield from _bound("--bind-try", _between(writable, frozen))
    yield from _bound("--ro-bind", [path for path in frozen if not _goes_with_a_worktree(path)])
    yield from _bound("--ro-bind-try", filter(_goes_with_a_worktree, frozen))
    for path in policy.hidden:
        if path.is_dir() and path not in writable:
            yield from ("--remount-ro", str(path))


def holds(folder: Path, path: Path) -> bool:
    """Return whether ``path`` is ``folder`` or lies below it."""
    above, name = str(folder), str(path)
    return name == above or name.startswith(above if above == "/" else f"{above}/")


def _goes_with_a_worktree(path: Path) -> bool:
    """Return whether it is of a worktree in a repository's folder: that may be removed before the mounts are made."""
    return path.name in OF_GIT and path.parent.parent.name == "worktrees"


def _runtime_folder(network: Network) -> Iterator[str]:
    """An empty ``/run``, but for the file that says who resolves names, where they can be resolved."""
    if not RUN.is_dir():
        return
    yield from ("--tmpfs", str(RUN))
    resolver = Path(os.path.realpath(RESOLVER))
    if network is Network.ON and resolver.is_file() and holds(RUN, resolver):
        yield from ("--ro-bind", str(resolver), str(resolver))


def _bound(how: str, paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        yield from (how, str(path), str(path))


def _between(folders: Sequence[Path], paths: Iterable[Path]) -> list[Path]:
    """Return the folders on the way to ``paths``.

    As mount points they can't be renamed, which would lead round what is frozen.
    """
    tops = {str(one) for one in folders if not any(other != one and holds(other, one) for other in folders)}
    way: set[str] = set()
    for path in paths:
        above = os.path.dirname(path)  # noqa: PTH120  hundreds of times for each command
        while above not in tops and above not in way and above != "/":
            way.add(above)
            above = os.path.dirname(above)  # noqa: PTH120  as above
    return sorted(map(Path, way))


def _below(paths: Iterable[Path], folders: Sequence[Path]) -> list[Path]:
    return [path for path in paths if any(holds(folder, path) for folder in folders)]


def _masked(path: Path, temp: Path) -> Iterator[str]:
    if path.is_dir():
        yield from ("--tmpfs", str(path))
    elif path.exists():
        yield from ("--ro-bind", str(temp / EMPTY), str(path))


def _emptied(path: Path) -> Iterator[str]:
    if path.is_dir():
        yield from ("--tmpfs", str(path), "--remount-ro", str(path))
    elif path.exists():
        yield from ("--ro-bind", NOTHING, str(path))
