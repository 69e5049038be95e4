from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from vibe.core.system import files
from vibe.core.system.files import append_all, replace_file

ROOM = 4096


@pytest.fixture(params=["unnamed", "named"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder where drafts have no name at first, and one on a system that has no such thing."""
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


def test_a_draft_that_is_refused_leaves_the_old_file(folder: Path) -> None:
    path = folder / "config.toml"
    path.write_bytes(b"old")
    seen: list[bytes] = []

    def refuse(draft: Path) -> None:
        seen.append(draft.read_bytes())
        raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        replace_file(path, b"bad", sync=True, check=refuse)
    assert (seen, path.read_bytes(), len(list(folder.iterdir()))) == ([b"bad"], b"old", 1)


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_leaves_the_old_file_and_nothing_else(folder: Path) -> None:
    path = folder / "state.json"
    path.write_bytes(b"old")
    with pytest.raises(OSError, match="File too large") as caught:
        replace_file(path, b"x" * ROOM * 2, sync=False)
    assert caught.value.errno == errno.EFBIG
    assert (path.read_bytes(), [one.name for one in folder.iterdir()]) == (b"old", ["state.json"])


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
        "import sys; from pathlib import Path; from vibe.core.system.files import replace_file\n"
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
    """No file may get longer than ``ROOM`` bytes: a write ends in the middle, as on a disk that fills up."""
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    signal.signal(signal.SIGXFSZ, before)
