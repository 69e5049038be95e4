"""The places of the user's files."""

from __future__ import annotations

from pathlib import Path

from vibe.core.config.paths import VibePaths, absolute, shown


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
