from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.fakes.full_disk import file_size_limit
from vibe.system import files
from vibe.system.files import append_all, put_file, put_new_file, replace_file, trial_file

ROOM = 4096


@pytest.fixture(params=["unnamed", "named"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder where drafts have no name at first, and one where the system lacks unnamed files."""
    if request.param == "named":
        monkeypatch.setattr(files, "_UNNAMED", None)
    return tmp_path


@pytest.mark.parametrize("sync", [True, False])
def test_a_file_is_replaced_as_a_whole_and_nothing_is_left_beside_it(folder: Path, *, sync: bool) -> None:
    path = folder / "state.json"
    path.write_bytes(b"old")
    with path.open("rb") as reader:
        replace_file(path, b"new", sync=sync)
        assert reader.read() == b"old"
    assert path.read_bytes() == b"new"
    assert [one.name for one in folder.iterdir()] == ["state.json"]


@pytest.mark.parametrize(
    ("mode", "umask", "expected"), [(0o600, 0, 0o600), (0o644, 0o077, 0o644), (None, 0o027, 0o640)]
)
def test_the_mode_holds_whatever_the_umask_is(folder: Path, mode: int | None, umask: int, expected: int) -> None:
    path = folder / "file"
    path.write_bytes(b"")
    path.chmod(0o666)
    before = os.umask(umask)
    try:
        replace_file(path, b"new", sync=False, mode=mode)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == expected


def test_a_link_is_replaced_and_what_it_led_to_stays(folder: Path) -> None:
    target, link = folder / "target", folder / "link"
    target.write_bytes(b"theirs")
    link.symlink_to(target)
    replace_file(link, b"ours", sync=False)
    assert (target.read_bytes(), link.read_bytes(), link.is_symlink()) == (b"theirs", b"ours", False)


def test_a_file_on_trial_lies_beside_and_is_gone_afterwards(folder: Path) -> None:
    path = folder / "config.toml"
    path.write_bytes(b"old")
    with trial_file(path, b"bad") as draft:
        assert (draft.parent, draft.read_bytes()) == (folder, b"bad")
    assert (path.read_bytes(), len(list(folder.iterdir()))) == (b"old", 1)


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_file_of_the_users_follows_the_umask_and_then_keeps_its_mode(folder: Path, umask: int, mode: int) -> None:
    path = folder / "report.md"
    before = os.umask(umask)
    try:
        put_file(path, b"one")
        assert path.stat().st_mode & 0o777 == mode
        path.chmod(0o640)
        put_file(path, b"two")
    finally:
        os.umask(before)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"two", 0o640)


def test_a_file_of_the_users_is_written_through_links_and_all_its_names_see_it(folder: Path) -> None:
    (folder / "real").mkdir()
    target, link, other = folder / "real" / "report", folder / "report", folder / "other"
    link.symlink_to("real/report")  # leads to nothing yet
    put_file(link, b"one")
    os.link(target, other)
    put_file(link, b"two")
    assert link.is_symlink()
    assert (target.read_bytes(), other.read_bytes()) == (b"two", b"two")
    assert sorted(one.name for one in folder.iterdir()) == ["other", "real", "report"]


def test_what_is_no_regular_file_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        put_file(pipe, b"told")
        assert os.read(reader, 100) == b"told"
    finally:
        os.close(reader)
    put_file("/dev/null", b"gone")
    assert Path("/dev/null").is_char_device()


@pytest.mark.skipif(not hasattr(os, "listxattr"), reason="Python knows extended attributes only on Linux")
def test_attributes_and_mode_stay_with_another_file_in_the_place_of_the_old(folder: Path) -> None:
    path = folder / "file"
    path.write_bytes(b"one")
    path.chmod(0o751)
    os.setxattr(path, "user.origin", b"somewhere")
    inode = path.stat().st_ino
    put_file(path, b"two")
    assert path.stat().st_ino != inode
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"two", 0o751)
    assert os.getxattr(path, "user.origin") == b"somewhere"


@pytest.mark.parametrize("refused", ["fchown", "setxattr", "rename"])
def test_where_another_file_can_not_take_its_place_its_bytes_are_changed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    path = folder / "file"
    path.write_bytes(b"one, and long")
    if refused == "setxattr" and hasattr(os, "listxattr"):
        os.setxattr(path, "user.origin", b"somewhere")
    if refused == "fchown":
        os.chown(path, -1, os.getgid() if os.geteuid() else 4242)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "no")

    monkeypatch.setattr(os, refused, refuse)
    before = path.stat()
    put_file(path, b"two")
    after = path.stat()
    assert path.read_bytes() == b"two"
    if refused == "rename" or os.geteuid() == 0:
        assert (after.st_ino, after.st_uid, after.st_gid) == (before.st_ino, before.st_uid, before.st_gid)
    assert [one.name for one in folder.iterdir()] == ["file"]


KILLED_IN_PLACE = """
import os, signal, sys
from vibe.system import files
writes = 0
real = os.write
def write(descriptor, data):
    if bytes(data[:3]) == b"new":
        real(descriptor, data[:2])
        os.kill(os.getpid(), signal.SIGKILL)
    return real(descriptor, data)
os.write = write
files.put_file(sys.argv[1], b"new" * 100)
"""


def test_a_process_that_is_killed_while_it_changes_bytes_leaves_a_copy_of_the_old(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old" * 50)
    os.link(path, tmp_path / "other")
    ended = subprocess.run([sys.executable, "-c", KILLED_IN_PLACE, path], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert b"old" * 50 in [one.read_bytes() for one in tmp_path.iterdir()]


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_leaves_the_old_bytes_of_a_file_with_two_names(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    os.link(path, tmp_path / "other")
    with pytest.raises(OSError, match="File too large"):
        put_file(path, b"x" * ROOM * 2)
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == {"file": b"old", "other": b"old"}


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_leaves_the_old_file_and_nothing_else(folder: Path) -> None:
    path = folder / "state.json"
    path.write_bytes(b"old")
    with pytest.raises(OSError, match="File too large") as caught:
        replace_file(path, b"x" * ROOM * 2, sync=False)
    assert caught.value.errno == errno.EFBIG
    assert (path.read_bytes(), [one.name for one in folder.iterdir()]) == (b"old", ["state.json"])


@pytest.mark.usefixtures("full_disk")
def test_a_new_file_is_there_whole_or_not_at_all(folder: Path) -> None:
    path = folder / "plan.json"
    with pytest.raises(OSError, match="File too large"):
        put_new_file(path, b"x" * ROOM * 2)
    assert not [*folder.iterdir()]
    put_new_file(path, b"first")
    with pytest.raises(FileExistsError):
        put_new_file(path, b"second")
    (folder / "link").symlink_to("nowhere")
    with pytest.raises(FileExistsError):
        put_new_file(folder / "link", b"third")
    assert (path.read_bytes(), sorted(one.name for one in folder.iterdir())) == (b"first", ["link", "plan.json"])


@pytest.mark.usefixtures("full_disk")
def test_a_line_that_does_not_fit_is_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_bytes(b"whole\n")
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        with pytest.raises(OSError, match="File too large"):
            append_all(fd, b"x" * ROOM, 6)
    finally:
        os.close(fd)
    assert path.read_bytes() == b"whole\n"


def test_a_missing_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        replace_file(tmp_path / "none" / "file", b"", sync=False)


def test_writers_that_meet_leave_one_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    program = (
        "import sys; from pathlib import Path; from vibe.system.files import replace_file\n"
        "for _ in range(100): replace_file(Path(sys.argv[1]), sys.argv[2].encode() * 20000, sync=False)"
    )
    replace_file(path, b"a" * 20000, sync=False)
    writers = [subprocess.Popen([sys.executable, "-c", program, path, letter]) for letter in "ab"]
    seen: set[tuple[int, int]] = set()
    while any(writer.poll() is None for writer in writers):
        data = path.read_bytes()
        seen.add((len(data), len(set(data))))
    assert [writer.wait() for writer in writers] == [0, 0]
    assert seen <= {(20000, 1)}
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


@pytest.fixture
def full_disk() -> Generator[None]:
    """Limit files to ``ROOM`` bytes: a write is cut short, as on a disk that fills up."""
    with file_size_limit(ROOM):
        yield
