from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.session.repository import ENVIRON, content, git, repository, snapshots, write
from vibe.core.session.errors import SnapshotError
from vibe.core.session.snapshots import MOST_BYTES, Snapshots


def names(history: Snapshots, tree: str) -> list[str]:
    return git("ls-tree", "-r", "--name-only", tree, cwd=history.git_dir).splitlines()


def test_new_changed_and_removed_files_are_recorded_and_ignored_ones_are_not(tmp_path: Path) -> None:
    root = repository(tmp_path / "w", {"a.txt": "a", "b.txt": "b", ".gitignore": "*.log\n"})
    history = snapshots(root, tmp_path / "s")
    first = history.take(0)
    write(root, {"a.txt": "changed", "new/c.txt": "c", "x.log": "noise"})
    (root / "b.txt").unlink()

    second = history.take(3)

    assert {(change.status, change.path) for change in history.changes(first, second)} == {
        ("M", "a.txt"),
        ("D", "b.txt"),
        ("A", "new/c.txt"),
    }
    assert [snapshot.messages for snapshot in history.taken()] == [0, 3]


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


def test_nothing_changed_is_nothing_written(tmp_path: Path) -> None:
    root = repository(tmp_path / "w", {"a.txt": "a"})
    history = snapshots(root, tmp_path / "s")

    assert history.take(0) == history.take(5) == history.take(9, found=True)
    assert [snapshot.messages for snapshot in history.taken()] == [0]


def test_the_end_of_a_turn_that_changed_nothing_is_noted(tmp_path: Path) -> None:
    root = repository(tmp_path / "w", {"a.txt": "a"})
    history = snapshots(root, tmp_path / "s")

    assert history.take(0, found=True) == history.take(3)
    assert [(snapshot.messages, snapshot.found) for snapshot in history.taken()] == [(0, True), (3, False)]


def test_a_session_that_is_taken_up_again_goes_on_with_its_snapshots(tmp_path: Path) -> None:
    root = repository(tmp_path / "w", {"a.txt": "a"})
    first = snapshots(root, tmp_path / "s").take(0)
    write(root, {"a.txt": "b"})
    (tmp_path / "s" / "files.git" / "index.lock").touch()

    again = snapshots(root, tmp_path / "s")

    assert again.take(4) != first
    assert [snapshot.messages for snapshot in again.taken()] == [0, 4]


def test_without_a_repository_there_are_snapshots_too(tmp_path: Path) -> None:
    root = tmp_path / "w"
    write(root, {"a.txt": "a", "node_modules/x/y.js": "y"})
    history = snapshots(root, tmp_path / "s")
    first = history.take(0)
    write(root, {"a.txt": "b"})

    assert names(history, first) == ["a.txt"]
    assert [change.path for change in history.changes(first, history.take(1))] == ["a.txt"]


def test_a_workspace_below_the_top_records_only_itself(tmp_path: Path) -> None:
    top = repository(tmp_path / "w", {"a.txt": "a", "below/b.txt": "b"})
    history = snapshots(top / "below", tmp_path / "s")
    first = history.take(0)
    write(top, {"a.txt": "not ours", "below/b.txt": "ours"})

    assert [change.path for change in history.changes(first, history.take(1))] == ["below/b.txt"]


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

    first = history.take(0)

    assert names(history, first) == ["a.txt"]


def test_huge_files_and_inner_repositories_are_left_out(tmp_path: Path) -> None:
    root = repository(tmp_path / "w", {"a.txt": "a"})
    repository(root / "inner", {"b.txt": "b"})
    with (root / "huge.bin").open("wb") as huge:
        huge.truncate(MOST_BYTES + 1)
    history = snapshots(root, tmp_path / "s")

    assert names(history, history.take(0)) == ["a.txt"]


def test_odd_names_and_links_come_back(tmp_path: Path) -> None:
    root = repository(tmp_path / "w", {'a b\n"ü.txt': "odd"})
    (root / "link").symlink_to("a.txt")
    history = snapshots(root, tmp_path / "s")
    first = history.take(0)
    (root / "link").unlink()
    write(root, {'a b\n"ü.txt': "changed"})
    history.take(1)

    history.write_files(first, ['a b\n"ü.txt', "link"])

    assert (root / "link").readlink() == Path("a.txt")
    assert content(root)['a b\n"ü.txt'] == "odd"


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
