"""A separate machine for hostile lines: whatever breaks out of the sandbox there finds nothing to harm.

It has its own namespaces for mounts, processes, network, host name and messages. Every real file system is read-only,
and nobody inside can undo that, because another user owns the mounts. The lab's root is nobody outside. ``/mnt`` is its
disk, in memory.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

DISK = Path("/mnt")
CHECKOUT = Path(__file__).parents[4]
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
SEPARATED = (
    "unshare",
    "--user",
    "--map-root-user",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--net",
    "--uts",
    "--ipc",
)
AGAIN = {
    "root": ("unshare", "--user", "--map-root-user", "--mount"),
    "user": ("unshare", "--user", "--map-user=1000", "--map-group=1000"),
}
SECONDS = 120
OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442
AT_FDCWD, AT_RECURSIVE, EMPTY_PATH, CLONE_TREE, FROM_DESCRIPTOR = -100, 0x8000, 0x1000, 1, 4
READ_ONLY, ID_MAPPED = 1, 0x100000


@dataclass(frozen=True, kw_only=True)
class Tried:
    """The output and exit code of each line, and the files on the disk afterwards with their content."""

    outputs: list[str]
    codes: list[int]
    files: dict[str, str]
    name: str


def tried(
    backend: str,
    who: str,
    lines: Sequence[str],
    *,
    before: str = "",
    settings: str = "{}",
    read_only: bool = False,
) -> Tried:
    """Run ``lines`` confined in the lab, as its root or as a user. ``before`` prepares the disk, unconfined."""
    program = [sys.executable, "-P", "-m", "tests.integration.shell.sandbox.lab"]
    outside = ["unshare", "--mount", *program, "open", *NOBODY] if os.geteuid() == 0 else []
    work = json.dumps({
        "backend": backend,
        "lines": [*lines],
        "before": before,
        "settings": settings,
        "read_only": read_only,
    })
    ended = subprocess.run(
        [*outside, *SEPARATED, "--mount-proc", *program, "build", *AGAIN[who], *program, "try"],
        cwd=CHECKOUT, input=work, capture_output=True, text=True, timeout=SECONDS, check=False,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(CHECKOUT), "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(DISK / "tmp")},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return Tried(**json.loads(ended.stdout))


def open_the_way() -> None:
    """Give the user nobody access to the interpreter and the tests.

    They may lie in a home that only root can read, in files that only root can read.
    """
    os.umask(0o022)
    asked = {Path(one) for one in (sys.base_prefix, sys.prefix, CHECKOUT)}
    outermost = [one for one in asked if not asked.intersection(one.parents)]
    kept = {prefix: _owned_by_nobody(prefix) for prefix in outermost}
    for prefix, tree in kept.items():
        shut = next((path for path in reversed(prefix.parents) if not path.stat().st_mode & 1), None)
        if shut is not None:
            _mount("lab", shut, "tmpfs", 0, "mode=0755")
            prefix.mkdir(parents=True)
        _called(MOVE_MOUNT, tree, b"", AT_FDCWD, bytes(prefix), FROM_DESCRIPTOR)


def _owned_by_nobody(folder: Path) -> int:
    """Return a detached read-only mount of ``folder`` in which root's files are nobody's.

    It is ID-mapped; see mount_setattr(2).
    """
    tree = _called(OPEN_TREE, AT_FDCWD, bytes(folder), CLONE_TREE | AT_RECURSIVE)
    with subprocess.Popen(["unshare", "--user", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as mapped:
        assert mapped.stdin is not None
        assert mapped.stdout is not None
        mapped.stdin.write(b"begun")
        mapped.stdin.flush()
        mapped.stdout.read(1)
        for kind in ("uid_map", "gid_map"):
            Path(f"/proc/{mapped.pid}/{kind}").write_text("0 65534 1")
        users = os.open(f"/proc/{mapped.pid}/ns/user", os.O_RDONLY)
        mapped.kill()
    attributes = (ctypes.c_uint64 * 4)(READ_ONLY | ID_MAPPED, 0, 0, users)
    with suppress(SystemExit):  # a file system without such mounts: its files must be readable for all
        _called(MOUNT_SETATTR, tree, b"", EMPTY_PATH | AT_RECURSIVE, attributes, ctypes.c_size_t(32))
    return tree


def _called(number: int, *arguments: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(number, *arguments)
    if result < 0:
        raise SystemExit(f"system call {number} {arguments}: {os.strerror(ctypes.get_errno())}")
    return result


def _mount(source: str, target: Path, kind: str, flags: int, options: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    words = [word.encode() for word in (source, str(target), kind, options)]
    if libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]) != 0:
        raise SystemExit(f"{target}: {os.strerror(ctypes.get_errno())}")


def build(rest: list[str]) -> None:
    """Take the real disk away, and go on with the rest of the command line."""
    for path, given, taken, flags in ((b"/", READ_ONLY, 0, AT_RECURSIVE), (b"/proc", 0, READ_ONLY, 0)):
        attributes = (ctypes.c_uint64 * 4)(given, taken, 0, 0)
        _called(MOUNT_SETATTR, AT_FDCWD, path, flags, attributes, ctypes.c_size_t(32))
    _mount("lab", DISK, "tmpfs", 0, "mode=0777")
    (DISK / "tmp").mkdir()
    os.execvp(rest[0], rest)  # noqa: S606  replacing this program is the point


def attempt() -> None:
    """Run the lines given on standard input."""
    import anyio  # noqa: PLC0415  the processes before this one do not need it

    from tests.integration.shell.sandbox.cell import Cell  # noqa: PLC0415
    from vibe.shell.sandbox.settings import SandboxConfig  # noqa: PLC0415

    work = json.load(sys.stdin)
    for folder in ("work", "home/.ssh", "home/.vibe"):
        (DISK / folder).mkdir(parents=True)
    (DISK / "home" / ".vibe" / "config.toml").write_text("SECRET")
    (DISK / "outside").write_text("as it was")
    if work["before"]:
        subprocess.run(["bash", "-ec", work["before"]], cwd=DISK / "work", env=_environ(), check=True)
    cell = Cell(DISK, work["backend"], SandboxConfig.model_validate_json(work["settings"]))
    sandbox = cell.confinement.choice().sandbox
    assert sandbox is not None, cell.confinement.choice().reason
    run = partial(cell.run, read_only=work["read_only"])
    ended = [anyio.run(run, line) for line in work["lines"]]
    found = {
        "outputs": [one.stdout + one.stderr for one in ended],
        "codes": [one.exit_code for one in ended],
        "files": {
            str(path.relative_to(DISK)): path.read_text(errors="replace")
            for path in DISK.rglob("*")
            if path.is_file() and not path.is_relative_to(DISK / "tmp")
        },
        "name": sandbox.name,
    }
    sys.stdout.write(json.dumps(found))


def _environ() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(DISK / "home")}


if __name__ == "__main__":
    if sys.argv[1] == "open":
        open_the_way()
        os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606  as above
    if sys.argv[1] == "build":
        build(sys.argv[2:])
    attempt()
