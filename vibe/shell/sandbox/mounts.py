"""The file system as a confined program sees it, as options of ``bwrap``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from vibe.shell.sandbox.control import OF_GIT
from vibe.shell.sandbox.port import SandboxPolicy
from vibe.shell.sandbox.secrets import EMPTY, PRIVATE_TEMP, sockets_of_others
from vibe.shell.sandbox.settings import Network

RUN = Path("/run")
SHARED_TEMP = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108  they are what is replaced
MEMORY = Path("/dev/shm")  # noqa: S108  as above
PRIVATE_TEMP_BYTES = 64 * 1024 * 1024
RESOLVER = Path("/etc/resolv.conf")
SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "opt", "nix", "gnu")
"""All that a program that only reads sees beside its workspace, of the folders in ``/``."""
NOTHING = "/dev/null"
"""The device that lies over a file that must not be read; it can't be opened there."""


class Mounts:
    """Places and what they show: of those that hold a path the deepest decides, in whatever order they are told."""

    def __init__(self) -> None:
        self._places: dict[Path, tuple[str, ...]] = {}

    def put(self, how: str, path: Path, source: str | Path | None = None) -> None:
        """Have ``path`` show ``source``, by default itself."""
        self._places[path] = (how, str(path if source is None else source), str(path))

    def put_memory(self, path: Path, most_bytes: int = 0) -> None:
        """Have ``path`` be an empty folder in memory."""
        size = ("--size", str(most_bytes)) if most_bytes else ()
        self._places[path] = (*size, "--tmpfs", str(path))

    def put_raw(self, path: Path, *options: str) -> None:
        """Have ``options`` make what is at ``path``."""
        self._places[path] = options

    def holds(self, path: Path) -> bool:
        """Return whether something of its own lies at ``path``."""
        return path in self._places

    def options(self, closed: Iterable[Path] = ()) -> Iterator[str]:
        """Return it as ``bwrap`` takes it; folders in memory that are ``closed`` can't be written."""
        for path in sorted(self._places, key=lambda place: len(place.parts)):
            yield from self._places[path]
        for path in dict.fromkeys(closed):
            if self._places.get(path) == ("--tmpfs", str(path)):
                yield from ("--remount-ro", str(path))


def file_system(policy: SandboxPolicy, *, private_proc: bool) -> Iterator[str]:
    """The mounts of a policy, with a ``/proc`` of its own processes or an empty one."""
    view = Mounts()
    view.put_raw(Path("/dev"), "--dev", "/dev")
    view.put_raw(Path("/proc"), "--proc" if private_proc else "--tmpfs", "/proc")
    yield from _only_reading(policy, view) if policy.read_only else _working(policy, view)


def _only_reading(policy: SandboxPolicy, view: Mounts) -> Iterator[str]:
    """Programs and their settings, the workspace, and a temporary folder in memory."""
    seen = [path for path in policy.readable if path.exists()]
    for name in SYSTEM:
        path = Path("/", name)
        if path.is_symlink():
            view.put("--symlink", path, path.readlink())
        elif path.is_dir():
            view.put("--ro-bind", path)
            seen.append(path)
    view.put_memory(Path(PRIVATE_TEMP), PRIVATE_TEMP_BYTES)
    view.put_memory(MEMORY, PRIVATE_TEMP_BYTES)
    for path in policy.readable:
        if path.exists():
            view.put("--ro-bind", path)
    _clean(view, policy, [path for path in policy.cleaned if any(holds(folder, path) for folder in seen)])
    hidden = [path for path in policy.hidden if any(holds(folder, path) for folder in seen)]
    for path in hidden:
        _hide(view, path, NOTHING)
    yield from view.options(closed=hidden)
    yield from ("--remount-ro", "/")


def _working(policy: SandboxPolicy, view: Mounts) -> Iterator[str]:
    """Everything, read-only but for what is writable, without what is hidden and what is shared with others."""
    view.put("--ro-bind", Path("/"))
    writable = [path for path in policy.writable if path.exists()]
    readable = [path for path in policy.readable if path.exists()]
    shown = shown_in_shared(policy)
    granted = [*shown, *writable, *readable, policy.temp]
    closed = [*policy.hidden]
    for shared in shared_folders():
        closed += _private(view, shared, granted, policy.temp)
    resolver = Path(os.path.realpath(RESOLVER))  # it says who resolves names, where they can be resolved
    if policy.network is Network.ON and resolver.is_file() and holds(RUN, resolver):
        view.put("--ro-bind", resolver)
    for path in shown:
        view.put("--ro-bind", path)
    for path in policy.hidden:
        if _is_seen(path, granted) and not any(holds(folder, path) for folder in readable):
            _hide(view, path, str(policy.box / EMPTY))
    for path in sockets_of_others() if policy.unix_sockets else ():  # but for what lies where a program may write
        if not view.holds(path) and _is_seen(path, granted) and not any(holds(one, path) for one in writable):
            _hide(view, path, NOTHING)
    for path in writable:
        view.put("--bind", path)
    for path in readable:
        view.put("--ro-bind", path)
    view.put("--bind", policy.temp)
    _freeze(view, [path for path in _below(policy.frozen, writable) if path.exists()], writable)
    _clean(view, policy, [path for path in policy.cleaned if _is_seen(path, granted)])
    yield from view.options(closed)


def _clean(view: Mounts, policy: SandboxPolicy, seen: Iterable[Path]) -> None:
    for path in seen:
        view.put("--ro-bind", path, policy.cleaned[path])


def _freeze(view: Mounts, frozen: Iterable[Path], writable: Sequence[Path]) -> None:
    for path in _between(writable, frozen):
        if not view.holds(path):
            view.put("--bind-try", path)
    for path in frozen:
        view.put("--ro-bind-try" if _goes_with_a_worktree(path) else "--ro-bind", path)


def shared_folders() -> list[Path]:
    """Return the folders, resolved, in which others keep sockets and files of their own."""
    found = dict.fromkeys(Path(os.path.realpath(path)) for path in (RUN, MEMORY, *SHARED_TEMP))
    return [path for path in found if path.is_dir()]


def shown_in_shared(policy: SandboxPolicy) -> list[Path]:
    """Return what of such folders a program sees."""
    shared = shared_folders()
    return [path for path in policy.shown if any(path != one and holds(one, path) for one in shared)]


def _private(view: Mounts, shared: Path, granted: Iterable[Path], temp: Path) -> list[Path]:
    """Replace what is shared with others, and return the folders in it that lead to what is ``granted`` there.

    What was written there seems to be the folder of temporary files, unless something is granted there: others could
    move the folders on the way to it.
    """
    inner = [path for path in granted if path != shared and holds(shared, path)]
    if shared == MEMORY and not inner:
        return []  # --dev makes one
    if shared not in {RUN, MEMORY} and all(path == temp and path.parent == shared for path in inner):
        view.put("--bind", shared, temp)
        return []
    view.put_memory(shared)
    leading = [Path(shared, path.relative_to(shared).parts[0]) for path in inner]
    for path in leading:
        view.put_memory(path)
    return leading


def _is_seen(path: Path, granted: Iterable[Path]) -> bool:
    """Return whether it could be seen there, but for being hidden."""
    if not any(holds(shared, path) for shared in shared_folders()):
        return True
    return any(holds(folder, path) for folder in granted)


def holds(folder: Path, path: Path) -> bool:
    """Return whether ``path`` is ``folder`` or lies below it."""
    above, name = str(folder), str(path)
    return name == above or name.startswith(above if above == "/" else f"{above}/")


def _goes_with_a_worktree(path: Path) -> bool:
    """Return whether it is of a worktree in a repository's folder: that may be removed before the mounts are made."""
    return path.name in OF_GIT and path.parent.parent.name == "worktrees"


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


def _hide(view: Mounts, path: Path, instead: str) -> None:
    """Have an empty folder, or what is at ``instead``, lie over ``path``; nothing where nothing is."""
    if path.is_dir():
        view.put_memory(path)
    elif path.exists():
        view.put("--ro-bind", path, instead)
