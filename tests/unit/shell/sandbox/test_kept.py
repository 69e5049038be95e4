"""Files that are restored after a command, and files that it did not change."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import vibe
from vibe.shell.sandbox.control import REPOSITORY_FILES
from vibe.shell.sandbox.kept import KeptPaths


def worktree(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name in ("commondir", "gitdir", "config.worktree"):
        (folder / name).write_text(name)


def test_a_worktree_that_went_and_was_made_again_meanwhile_is_left_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / ".git" / "worktrees" / "s1"
    kept = KeptPaths(
        tmp_path, [folder / name for name in REPOSITORY_FILES]
    )  # it was listed, and removed before it was read
    worktree(folder)

    assert KeptPaths.read(kept.written()).put_back() == ""
    assert kept.is_as_it_was()
    assert kept.put_back() == ""
    assert sorted(path.name for path in folder.iterdir()) == ["commondir", "config.worktree", "gitdir"]


@pytest.mark.parametrize("folder", [".git", ".git/worktrees/s1", ".git/modules/lib"])
@pytest.mark.parametrize("name", ["config.worktree", "hooks"])
def test_what_a_command_made_in_a_folder_of_git_is_put_aside(tmp_path: Path, folder: str, name: str) -> None:
    place = tmp_path / folder
    place.mkdir(parents=True)
    if "worktrees" in folder:
        (place / "gitdir").touch()
        (place / "commondir").touch()
    kept = KeptPaths(tmp_path, [place / one for one in REPOSITORY_FILES])
    (place / name).write_text("new")

    assert "decides what runs later" in kept.put_back()
    assert not (place / name).exists()


@pytest.mark.parametrize("name", ["commondir", "gitdir"])
def test_a_repository_itself_is_not_made_a_worktree(tmp_path: Path, name: str) -> None:
    folder = tmp_path / ".git"
    folder.mkdir()
    kept = KeptPaths(tmp_path, [folder / one for one in REPOSITORY_FILES])
    (folder / name).write_text("elsewhere")

    assert "decides what runs later" in kept.put_back()
    assert not (folder / name).exists()


def test_what_puts_back_after_a_kill_is_loaded_without_any_package() -> None:
    top = str(Path(vibe.__file__).parents[1])
    modules = "vibe.shell.sandbox.kept, vibe.shell.sandbox.records, vibe.shell.process.starter_program"
    program = f"import sys; sys.path.append({top!r}); import {modules}"
    subprocess.run([sys.executable, "-I", "-S", "-c", program], check=True)


def test_a_link_in_the_place_of_a_folder_leads_to_no_change_elsewhere(tmp_path: Path) -> None:
    root, other = tmp_path / "work", tmp_path / "other"
    (root / ".git" / "hooks").mkdir(parents=True)
    (root / ".git" / "config").write_text("[core]\n")
    (other / "info").mkdir(parents=True)
    for name in ("config", "config.worktree", "info/attributes"):
        (other / name).write_text("theirs")
    paths = [root / ".git" / name for name in REPOSITORY_FILES]
    kept = KeptPaths(root, paths, paths)
    (root / ".git").rename(root / "git")
    (root / ".git").symlink_to(other)

    assert "decides what runs later" in kept.put_back()
    assert (root / ".git" / "config").read_text() == "[core]\n"
    assert sorted(str(path.relative_to(other)) for path in other.rglob("*")) == [
        "config",
        "config.worktree",
        "info",
        "info/attributes",
    ]
