from __future__ import annotations

import errno
import marshal
import os
from pathlib import Path

import pytest

from vibe.app.plan.rewind import SnapshotError
from vibe.core.session.snapshots import Snapshots
from vibe.system.errors import remedy, shortage, unexpected


@pytest.mark.parametrize(
    ("number", "helps"),
    [
        (errno.ENOSPC, "free some disk space"),
        (errno.ENOENT, "its folder is missing, restore it"),
        (errno.EACCES, "correct the permissions"),
        (errno.EISDIR, "it is a folder, name a file"),
        (errno.EEXIST, "something is there already, name another"),
        (errno.EIO, "check that it is writable"),
    ],
)
def test_what_helps_is_about_what_is_the_matter(number: int, helps: str) -> None:
    assert remedy(OSError(number, os.strerror(number))) == helps


def test_a_home_that_is_gone_is_not_said_to_be_full(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "home").write_text("")

    with pytest.raises(SnapshotError, match="its folder is missing, restore it"):
        Snapshots(tmp_path / "work", tmp_path / "home" / "session", os.environ).take(0)


def cut_bytecode() -> Exception:
    """Return the error that Python raises for a compiled file that was cut short."""
    with pytest.raises(EOFError) as raised:
        marshal.loads(marshal.dumps(compile("x = 1", "x", "exec"))[:-9])  # noqa: S302  our own bytes
    return raised.value


def raised_from(cause: BaseException) -> Exception:
    """Return an error that followed another one, without naming it as its cause."""
    error = StopAsyncIteration()
    error.__context__ = cause
    return error


def going_round(cause: BaseException) -> Exception:
    """Return an error raised from the group that holds it."""
    error = ValueError("x")
    error.__cause__ = ExceptionGroup("tasks", [error, OSError()])
    error.__cause__.__context__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "helps"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "free some disk space"),
        (FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']"), "set TMPDIR"),
        (MemoryError(), "free some memory"),
        (cut_bytecode(), "__pycache__"),
        (RuntimeError("can't start new thread"), "ulimit -u"),
        (ExceptionGroup("tasks", [ValueError("x"), OSError(errno.EMFILE, "Too many open files")]), "ulimit -n"),
        (raised_from(OSError(errno.ENOMEM, "Cannot allocate memory")), "free some memory"),
        (going_round(OSError(errno.EROFS, "Read-only file system")), "make it writable"),
    ],
)
def test_what_the_system_lacks_is_no_defect(error: Exception, helps: str) -> None:
    assert helps in (shortage(error) or "")
    assert "internal error" not in unexpected(error)


def test_a_defect_is_still_called_one() -> None:
    assert shortage(FileNotFoundError(errno.ENOENT, "No such file or directory", "x")) is None
    assert unexpected(RuntimeError("odd")) == "internal error (RuntimeError: odd); please report it"
