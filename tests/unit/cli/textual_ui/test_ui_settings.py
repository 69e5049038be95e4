"""The screen's settings, read without the models of the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from vibe.cli.textual_ui.app import UiSettings, read_settings
from vibe.core.config.models import UiConfig


def test_the_usual_ones_are_those_of_the_configuration() -> None:
    usual = UiConfig().model_dump()

    assert {name: getattr(UiSettings(), name) for name in usual} == usual


def test_what_is_set_counts(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        '[ui]\ntheme = "nord"\nmouse = false\nmotion = false\nnotify_after_seconds = 3\n'
    )

    assert read_settings(tmp_path) == UiSettings(theme="nord", mouse=False, motion=False, notify_after_seconds=3)
    assert read_settings(tmp_path / "nowhere") == UiSettings()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[ui\n", "can't be read"),
        ('[ui]\nmouse = "yes"\n', "[ui] mouse: invalid value"),
        ("[ui]\nnotify_after_seconds = true\n", "[ui] notify_after_seconds: invalid value"),
        (b"\xff\xfe", "can't be read"),
    ],
)
def test_a_broken_file_is_said_and_the_defaults_are_used(tmp_path: Path, text: str | bytes, said: str) -> None:
    (tmp_path / "config.toml").write_bytes(text.encode() if isinstance(text, str) else text)

    found = read_settings(tmp_path)

    assert said in found.problem
    assert found == UiSettings(problem=found.problem)


def test_a_table_of_another_kind_is_as_if_there_were_none(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('ui = "dark"\n')

    assert read_settings(tmp_path) == UiSettings()
