"""The places of the user's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.unprivileged import folder_of_nobody
from vibe.core.config.paths import VibePaths, absolute, find_project_dir, shown
from vibe.system.errors import ConfigError


def test_everything_is_below_home() -> None:
    paths = VibePaths(Path("/h"))
    found = {
        name: getattr(paths, name).as_posix()
        for name in ("config_file", "plans", "run", "sessions", "logs", "tools", "prompts", "trusted_file", "env_file")
    }
    assert found == {
        "config_file": "/h/config.toml",
        "plans": "/h/plans",
        "run": "/h/run",
        "sessions": "/h/logs/session",
        "logs": "/h/logs",
        "tools": "/h/tools",
        "prompts": "/h/prompts",
        "trusted_file": "/h/trusted_folders.toml",
        "env_file": "/h/.env",
    }


def test_paths_are_shown_from_home() -> None:
    assert shown(Path("/home/me/.vibe/x"), Path("/home/me")) == "~/.vibe/x"
    assert shown(Path("/home/me2/x"), Path("/home/me")) == "/home/me2/x"


def test_a_setting_means_a_path_from_its_file() -> None:
    base, home = Path("/base"), Path("/home/me")
    assert [absolute(text, base, home) for text in ("x", "/x", "~/x", "~")] == [
        "/base/x",
        "/x",
        "/home/me/x",
        "/home/me",
    ]


@pytest.mark.parametrize("closed", [".", ".vibe"])
def test_a_folder_that_cannot_be_entered_is_named_with_what_puts_it_right(closed: str) -> None:
    with folder_of_nobody() as work:
        (work / ".vibe").mkdir()
        (work / ".vibe" / "config.toml").touch()
        (work / closed).chmod(0o600)
        with pytest.raises(ConfigError, match=r"can't be entered, correct its permissions"):
            find_project_dir(work, home=work / "home", user_home=work.parent)


def test_a_missing_folder_belongs_to_no_project(tmp_path: Path) -> None:
    assert find_project_dir(tmp_path / "gone", home=tmp_path / "home", user_home=tmp_path) is None
