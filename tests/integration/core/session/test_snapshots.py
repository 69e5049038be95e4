from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.integration.core.session.repository import ENVIRON, git, repository, snapshots, write
from vibe.core.session.errors import SnapshotError
from vibe.core.session.snapshots import MOST_BYTES, Point, Snapshots, files_after
from vibe.system.own_places import OwnPlaces


def changed(history: Snapshots) -> dict[str, bool]:
    """Return the paths of the last point, and whether each exists."""
    return {path: kept is not None for path, kept in history.points()[-1].changed.items()}


def files(history: Snapshots) -> set[str]:
    return {path for path, kept in files_after(history.points()).items() if not kept.is_folder}


def test_new_changed_and_removed_files_are_recorded_and_ignored_ones_are_not(tmp_path: Path) -> None:
    root = repository(tmp_path / "w", {"a.txt": "a", "b.txt": "b", ".gitignore": "*.log\n"})
    history = snapshots(root, tmp_path / "s")
    history.take(0)
    write(root, {"a.txt": "changed", "new/c.txt": "c", "x.log": "noise"})
    (root / "b.txt").unlink()

    history.take(3)

    assert changed(history) == {"a.txt": True, "b.txt": False, "new": True, "new/c.txt": True}
    assert [point.messages for point in history.points()] == [0, 3]


def test_the_users_repository_is_left_as_it_was(tmp_path: Path) -> None:
    root = repository(tmp_path / "w", {"a.txt": "a"})
    write(root, {"a.txt": "staged", "b.txt": "untracked"})
    git("add", "a.txt", cwd=root)
    before = {path: path.read_bytes() for path in (root / ".git").rglob("*") if path.is_file()}
    history = snapshots(root, tmp_path / "s")

    history.take(0)
    write(root, {"a.txt": "again"})
    history.take(1)

    assert {path: path.read_bytes() for path in (root / ".git").rglob("*") if path.is_file()} == before


def test_what_is_new_after_the_clock_was_set_back_was_not_there_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = snapshots(repository(tmp_path / "w", {"a.txt": "a"}), tmp_path / "s")
    now, now_ns = time.time(), time.time_ns()
    monkeypatch.setattr(time, "time", lambda: now + 3600)
    history.take(0)
    write(tmp_path / "w", {"b.txt": "b"})
    monkeypatch.setattr(time, "time", lambda: now)
    monkeypatch.setattr(time, "time_ns", lambda: now_ns + 10**9)

    history.take(1)

    assert changed(history)["b.txt"]
    assert "b.txt" not in history.points()[0].changed


def test_nothing_changed_is_nothing_written(tmp_path: Path) -> None:
    history = snapshots(repository(tmp_path / "w", {"a.txt": "a"}), tmp_path / "s")

    for messages, found in ((0, False), (5, False), (9, True)):
        history.take(messages, found=found)

    assert [point.messages for point in history.points()] == [0]


def test_the_end_of_a_turn_that_changed_nothing_is_noted(tmp_path: Path) -> None:
    history = snapshots(repository(tmp_path / "w", {"a.txt": "a"}), tmp_path / "s")

    history.take(0, found=True)
    history.take(3)

    assert [(point.messages, point.found) for point in history.points()] == [(0, True), (3, False)]


@pytest.mark.parametrize(
    "torn",
    [b'{"at": 1, "changed": {"b.t', b'{"at": 1, "changed": {"b.txt": [-5]}}', b'{"changed": {"b.txt": [99999]}}'],
)
def test_a_session_that_is_taken_up_again_goes_on_with_its_points(tmp_path: Path, torn: bytes) -> None:
    root = repository(tmp_path / "w", {"a.txt": "a", "b.txt": "b"})
    snapshots(root, tmp_path / "s").take(0)
    with (tmp_path / "s" / "history.jsonl").open("ab") as log:
        log.write(torn)  # from a process that was killed, or a disk that fails
    write(root, {"a.txt": "b"})

    again = snapshots(root, tmp_path / "s")
    again.take(4)

    assert changed(again) == {"a.txt": True}
    assert [point.messages for point in again.points()] == [0, 4]


def test_without_a_repository_there_are_snapshots_too(tmp_path: Path) -> None:
    root = tmp_path / "w"
    write(root, {"a.txt": "a", "node_modules/x/y.js": "y"})
    history = snapshots(root, tmp_path / "s")
    history.take(0)
    assert files(history) == {"a.txt"}
    write(root, {"a.txt": "b"})

    history.take(1)

    assert changed(history) == {"a.txt": True}


def test_a_workspace_below_the_top_records_only_itself(tmp_path: Path) -> None:
    top = repository(tmp_path / "w", {"a.txt": "a", "below/b.txt": "b"})
    history = snapshots(top / "below", tmp_path / "s")
    history.take(0)
    write(top, {"a.txt": "not ours", "below/b.txt": "ours"})

    history.take(1)

    assert changed(history) == {"b.txt": True}


def test_a_merge_under_way_is_recorded(tmp_path: Path) -> None:
    root = repository(tmp_path / "w", {"a.txt": "a\n"})
    git("checkout", "-q", "-b", "side", cwd=root)
    write(root, {"a.txt": "side\n"})
    git("commit", "-qam", "side", cwd=root)
    git("checkout", "-q", "main", cwd=root)
    write(root, {"a.txt": "main\n"})
    git("commit", "-qam", "main", cwd=root)
    git("merge", "side", cwd=root, check=False)
    history = snapshots(root, tmp_path / "s")

    history.take(0)

    assert files(history) == {"a.txt"}


def test_huge_files_and_inner_repositories_are_left_out(tmp_path: Path) -> None:
    root = repository(tmp_path / "w", {"a.txt": "a"})
    repository(root / "inner", {"b.txt": "b"})
    with (root / "huge.bin").open("wb") as huge:
        huge.truncate(MOST_BYTES + 1)
    history = snapshots(root, tmp_path / "s")

    history.take(0)

    assert {path for path, kept in history.points()[0].changed.items() if kept and kept.blob} == {"a.txt"}


def test_a_change_of_the_same_length_within_the_same_instant_is_seen(tmp_path: Path) -> None:
    root = repository(tmp_path / "w", {"a.txt": "a"})
    history = snapshots(root, tmp_path / "s")
    dates = (root / "a.txt").stat()
    history.take(0)
    for number in range(20):
        (root / "a.txt").write_text(f"{number % 10}")
        os.utime(root / "a.txt", ns=(dates.st_atime_ns, dates.st_mtime_ns))
        history.take(number + 1)

    assert len(history.points()) == 21


def test_what_an_earlier_session_knows_of_a_file_is_not_taken_for_what_it_holds_now(tmp_path: Path) -> None:
    root = repository(tmp_path / "w", {"a.txt": "one\n", ".gitattributes": "* text=auto\n"})
    own = OwnPlaces(home=tmp_path / "home")
    for name, text in (("first", b"one\n"), ("second", b"one\r\n"), ("third", b"one\n")):
        (root / "a.txt").write_bytes(text)
        folder = tmp_path / name
        folder.mkdir()
        history = Snapshots(root, folder, ENVIRON, own)
        history.take(0)
        kept = history.points()[0].changed["a.txt"]
        assert kept is not None
        assert dict(history.store.get({kept.blob: 1})) == {kept.blob: text}


def test_what_is_vibes_own_is_no_file_of_the_workspace(tmp_path: Path) -> None:
    root = repository(tmp_path / "w", {"a.txt": "a"})
    write(root, {".vibe/logs/session/x/messages.jsonl": "m", ".vibe/.env": "KEY=1", ".other/logs/vibe.log": "theirs"})
    own = OwnPlaces(home=root / ".vibe")
    history = Snapshots(root, root / ".vibe" / "logs" / "session" / "x", ENVIRON, own)

    history.take(0)

    assert files(history) == {"a.txt", ".other/logs/vibe.log"}


def test_empty_folders_that_come_and_go_meanwhile_are_no_trouble(tmp_path: Path) -> None:
    root = repository(tmp_path / "w", {"a.txt": "a"})
    history = snapshots(root, tmp_path / "s")
    history.take(0)
    stop = threading.Event()

    def other() -> None:
        while not stop.is_set():
            (root / "new" / "deep").mkdir(parents=True)
            (root / "new" / "deep").rmdir()
            (root / "new").rmdir()

    with ThreadPoolExecutor(1) as pool:
        beside = pool.submit(other)
        try:
            for number in range(1, 101):
                history.take(number)
        finally:
            stop.set()
        beside.result()

    history.take(101)
    assert "a.txt" in files(history)
    assert not any(path.startswith("new") for path in files_after(history.points()))


def test_without_git_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    with pytest.raises(SnapshotError, match="git is not installed"):
        Snapshots(tmp_path / "w", tmp_path / "s", {**ENVIRON, "PATH": str(tmp_path)}).take(0)


def test_far_too_many_new_files_are_no_work_of_an_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = repository(tmp_path / "w", {})
    monkeypatch.setattr("vibe.core.session.snapshots.MOST_FILES", 2)
    write(root, {"1": "", "2": "", "3": ""})

    with pytest.raises(SnapshotError, match="gitignore"):
        snapshots(root, tmp_path / "s").take(0)


def test_many_tracked_files_are_not_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vibe.core.session.snapshots.MOST_FILES", 2)
    history = snapshots(repository(tmp_path / "w", {str(number): "" for number in range(5)}), tmp_path / "s")

    history.take(0)

    assert isinstance(history.points()[0], Point)
