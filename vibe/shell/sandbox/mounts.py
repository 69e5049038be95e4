"""Builds the file system that a confined program sees, as options of ``bwrap``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

from vibe.shell.sandbox.control import REPOSITORY_FILES
from vibe.shell.sandbox.port import SandboxPolicy
from vibe.shell.sandbox.secrets import EMPTY, PRIVATE_TEMP, sockets_of_others
from vibe.shell.sandbox.settings import Network

RUN = Path("/run")
SHARED_TEMP = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108  they are what is replaced
MEMORY = Path("/dev/shm")  # noqa: S108  as above
PRIVATE_TEMP_BYTES = 64 * 1024 * 1024
RESOLVER = Path("/etc/resolv.conf")
SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "opt", "nix", "gnu")
"""The folders in ``/`` that a program sees besides its workspace if it only reads."""
NOTHING = "/dev/null"
"""The device mounted over a file that must not be read. It can't be opened there."""


View: TypeAlias = "dict[Path, tuple[str, ...]]"
"""Mount points, with the options of ``bwrap`` for them. For each path, the deepest one that contains it decides."""


def _put(view: View, option: str, path: Path, source: str | Path | None = None) -> None:
    """Mount ``source`` at ``path``, by default the path itself."""
    view[path] = (option, str(path if source is None else source), str(path))


def _put_memory(view: View, path: Path, most_bytes: int = 0) -> None:
    """Mount an empty folder in memory at ``path``."""
    size = ("--size", str(most_bytes)) if most_bytes else ()
    view[path] = (*size, "--tmpfs", str(path))


def _options(view: View, closed: Iterable[Path] = ()) -> Iterator[str]:
    """Yield the options for ``bwrap``. Folders in memory that are ``closed`` are made read-only."""
    for path in sorted(view, key=lambda place: len(place.parts)):
        yield from view[path]
    for path in dict.fromkeys(closed):
        if view.get(path) == ("--tmpfs", str(path)):
            yield from ("--remount-ro", str(path))


def file_system(policy: SandboxPolicy, *, private_proc: bool) -> Iterator[str]:
    """Yield the options for the mounts of a policy, with a ``/proc`` of the program's own processes or an empty one.

    The machine's settings are read-only: to the kernel, root without capabilities still owns them.
    """
    processes = "--proc" if private_proc else "--tmpfs"
    view: View = {Path("/dev"): ("--dev", "/dev"), Path("/proc"): (processes, "/proc")}
    for name in ("sys", "irq") if private_proc else ():
        _put(view, "--ro-bind-try", Path("/proc", name))
    yield from _only_reading(policy, view) if policy.read_only else _working(policy, view)


def _only_reading(policy: SandboxPolicy, view: View) -> Iterator[str]:
    """Show programs and their settings, the workspace, and a temporary folder in memory."""
    readable = [*filter(os.path.exists, policy.readable)]
    seen = [*readable]
    for name in SYSTEM:
        path = Path("/", name)
        if os.path.islink(path):
            _put(view, "--symlink", path, path.readlink())
        elif os.path.isdir(path):
            _put(view, "--ro-bind", path)
            seen.append(path)
    _put_memory(view, Path(PRIVATE_TEMP), PRIVATE_TEMP_BYTES)
    _put_memory(view, MEMORY, PRIVATE_TEMP_BYTES)
    for path in readable:
        _put(view, "--ro-bind", path)
    _clean(view, policy, _below(policy.cleaned, seen))
    hidden = _below(policy.hidden, seen)
    for path in hidden:
        _hide(view, path, NOTHING)
    yield from _options(view, closed=hidden)
    yield from ("--remount-ro", "/")


def _working(policy: SandboxPolicy, view: View) -> Iterator[str]:
    """Show everything except hidden paths and shared folders, read-only except for writable paths."""
    _put(view, "--ro-bind", Path("/"))
    writable = [*filter(os.path.exists, policy.writable)]
    readable = [*filter(os.path.exists, policy.readable)]
    shared_with_others = shared_folders()
    shown = shown_in_shared(policy, shared_with_others)
    granted = [*shown, *writable, *readable, policy.temp]
    closed = [*policy.hidden]
    for shared in shared_with_others:
        closed += _replace_shared(view, shared, granted, policy.temp)
    resolver = Path(os.path.realpath(RESOLVER))  # needed to resolve host names
    if policy.network is Network.ON and os.path.isfile(resolver) and holds(RUN, resolver):
        _put(view, "--ro-bind", resolver)
    for path in shown:
        _put(view, "--ro-bind", path)
    seen = partial(_is_seen, granted=granted, shared=shared_with_others)
    for path in filter(seen, policy.hidden):
        if not any(holds(folder, path) for folder in readable):
            _hide(view, path, str(policy.box / EMPTY))
    for path in sockets_of_others() if policy.unix_sockets else ():  # except those in writable folders
        if path not in view and seen(path) and not any(holds(folder, path) for folder in writable):
            _hide(view, path, NOTHING)
    for path in writable:
        _put(view, "--bind", path)
    for path in readable:
        _put(view, "--ro-bind", path)
    _put(view, "--bind", policy.temp)
    _freeze(view, filter(os.path.exists, _below(policy.frozen, writable)))
    _clean(view, policy, filter(seen, policy.cleaned))
    _hold_folders(view)
    yield from _options(view, closed)


def _clean(view: View, policy: SandboxPolicy, seen: Iterable[Path]) -> None:
    for path in seen:
        _put(view, "--ro-bind", path, policy.cleaned[path])


def _freeze(view: View, frozen: Iterable[Path]) -> None:
    for path in frozen:
        is_of_worktree = path.name in REPOSITORY_FILES and path.parent.parent.name == "worktrees"  # so it may vanish
        _put(view, "--ro-bind-try" if is_of_worktree else "--ro-bind", path)


def shared_folders() -> list[Path]:
    """Return the folders, resolved, in which other programs keep their sockets and files."""
    found = dict.fromkeys(Path(os.path.realpath(path)) for path in (RUN, MEMORY, *SHARED_TEMP))
    return [path for path in found if os.path.isdir(path)]


def shown_in_shared(policy: SandboxPolicy, shared: Sequence[Path]) -> list[Path]:
    """Return the paths inside shared folders that a program sees."""
    return [path for path in policy.shown if any(path != folder and holds(folder, path) for folder in shared)]


def _replace_shared(view: View, shared: Path, granted: Iterable[Path], temp: Path) -> list[Path]:
    """Replace a shared folder, and return the folders in it that lead to paths ``granted`` there.

    The program sees its own folder of temporary files in its place, unless something is granted inside the shared one.
    In that case it sees an empty folder in memory there, because others could move the folders on the way.
    """
    inner = [path for path in granted if path != shared and holds(shared, path)]
    if shared == MEMORY and not inner:
        return []  # the option --dev makes an own one
    if shared not in {RUN, MEMORY} and all(path == temp and path.parent == shared for path in inner):
        _put(view, "--bind", shared, temp)
        return []
    _put_memory(view, shared)
    leading = [Path(shared, path.relative_to(shared).parts[0]) for path in inner]
    for path in leading:
        _put_memory(view, path)
    return leading


def _is_seen(path: Path, granted: Iterable[Path], shared: Iterable[Path]) -> bool:
    """Return whether the program would see ``path`` if it weren't hidden."""
    if not any(holds(folder, path) for folder in shared):
        return True
    return any(holds(folder, path) for folder in granted)


def holds(folder: Path, path: Path) -> bool:
    """Return whether ``path`` is ``folder`` or is below it."""
    above, name = str(folder), str(path)
    return name == above or name.startswith(above if above == "/" else f"{above}/")


def _hold_folders(view: View) -> None:
    """Make mount points of the writable folders on the way to what is mounted in them, so that they can't be renamed.

    Renaming them would be a way around what is frozen or hidden, and to the files of the sandbox.
    """
    mounted = {str(path): options for path, options in view.items()}
    way: set[str] = set()
    for path in mounted:
        passed: list[str] = []
        above = os.path.dirname(path)  # noqa: PTH120  hundreds of times for each command
        while above not in mounted and above not in way:
            passed.append(above)
            above = os.path.dirname(above)  # noqa: PTH120  as above
        if above in way or mounted[above] == ("--bind", above, above):
            way.update(passed)
    for folder in map(Path, way):
        _put(view, "--bind-try", folder)


def _below(paths: Iterable[Path], folders: Sequence[Path]) -> list[Path]:
    return [path for path in paths if any(holds(folder, path) for folder in folders)]


def _hide(view: View, path: Path, instead: str) -> None:
    """Mount an empty folder over a folder, or the file ``instead`` over a file. Do nothing if neither is there."""
    if os.path.isdir(path):
        _put_memory(view, path)
    elif os.path.exists(path):
        _put(view, "--ro-bind", path, instead)
