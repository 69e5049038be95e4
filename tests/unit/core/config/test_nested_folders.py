"""Folders with instructions below a workspace are found within bounds, and only if they are trusted."""

from __future__ import annotations

from pathlib import Path

import pytest

from vibe.core.config import paths
from vibe.core.config.loader import LoadedConfig
from vibe.core.config.models import VibeConfig
from vibe.core.config.paths import nested_folders


def make(root: Path, *names: str) -> None:
    for name in names:
        (root / name).mkdir(parents=True)


def loaded(home: Path, work: Path, user_home: Path, *, trust: bool) -> LoadedConfig:
    environ = {"HOME": str(user_home)}
    return LoadedConfig(home=home, workdir=work, environ=environ, config=VibeConfig(), trust_workdir=trust)


def found(root: Path) -> list[str]:
    return [folder.relative_to(root).as_posix() for folder in nested_folders(root, lambda _: True)]


def test_the_nearest_come_first_and_none_deeper_than_four_levels(tmp_path: Path) -> None:
    make(tmp_path, "z/.vibe", "a/b/.agents", "a/b/c/d/.vibe", "a/b/c/d/e/.vibe", ".vibe", "plain/src")
    assert found(tmp_path) == ["z", "a/b", "a/b/c/d"]


def test_what_is_somebody_elses_hidden_or_a_link_is_passed_over(tmp_path: Path) -> None:
    make(tmp_path, "work/node_modules/x/.vibe", "work/vendor/.vibe", "work/.cache/x/.vibe", "elsewhere/.vibe")
    (tmp_path / "work" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "work" / "app").mkdir()
    (tmp_path / "work" / "app" / ".vibe").symlink_to(tmp_path / "elsewhere" / ".vibe")
    assert found(tmp_path / "work") == []


def test_the_search_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, *(f"{number:03}/x" for number in range(100)), "999/.vibe")
    monkeypatch.setattr(paths, "MAX_FOLDERS", 50)
    assert found(tmp_path) == []
    monkeypatch.setattr(paths, "MAX_FOLDERS", 500)
    assert found(tmp_path) == ["999"]


def test_each_folder_must_be_trusted_and_the_workspace_too(tmp_path: Path) -> None:
    home, work = tmp_path / "me" / ".vibe", tmp_path / "work"
    make(work, "good/.vibe", "bad/.vibe")
    home.mkdir(parents=True)

    def nested(*, trust: bool = False) -> list[str]:
        folders = loaded(home, work, tmp_path / "me", trust=trust).nested_projects()
        return [folder.name for folder in folders]

    assert nested() == []
    assert nested(trust=True) == ["bad", "good"]
    (home / "trusted_folders.toml").write_text(f'trusted = ["{work}"]\nuntrusted = ["{work}/bad"]\n')
    assert nested() == ["good"]
    (home / "trusted_folders.toml").write_text(f'trusted = ["{work}/good"]\n')
    assert nested() == []


def test_the_users_home_is_no_project(tmp_path: Path) -> None:
    make(tmp_path, "other/.vibe")
    assert loaded(tmp_path / ".vibe", tmp_path, tmp_path, trust=True).nested_projects() == ()
