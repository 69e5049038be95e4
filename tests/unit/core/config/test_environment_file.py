"""The user's ``.env``: the variables it sets, and the messages about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.core.config.surroundings import Surroundings
from vibe.core.config.dotenv import read_env_file


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("KEY=plain", "plain"),
        ("  export KEY = spaced out  ", "spaced out"),
        ("KEY=", ""),
        ("KEY= # nothing", ""),
        ("KEY=with#hash", "with#hash"),
        ("KEY=value # comment", "value"),
        ("KEY='single # \\n'", "single # \\n"),
        ('KEY="double \\"quoted\\"\\n" # comment', 'double "quoted"\n'),
        ("KEY=a=b==", "a=b=="),
    ],
)
def test_a_line_sets_a_variable(tmp_path: Path, line: str, value: str) -> None:
    path = tmp_path / ".env"
    path.write_text(f"# keys\n\n{line}\n")
    path.chmod(0o600)
    found = read_env_file(path, ".env")
    assert (found.values, found.lines, found.warnings) == ({"KEY": value}, {"KEY": 3}, ())


@pytest.mark.parametrize("line", ["sk-secret", "1KEY=sk-secret", "KEY='sk-secret", 'KEY="sk-secret" tail'])
def test_a_senseless_line_is_warned_about_without_showing_it(tmp_path: Path, line: str) -> None:
    path = tmp_path / ".env"
    path.write_text(f"A=1\n{line}\n")
    path.chmod(0o600)
    found = read_env_file(path, ".env")
    assert found.warnings == (".env:2: is ignored, write KEY=VALUE",)
    assert found.values == {"A": "1"}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_file_others_can_read_is_warned_about(surroundings: Surroundings, mode: int) -> None:
    surroundings.user_file("MISTRAL_API_KEY=sk-secret\n", ".env").chmod(mode)
    assert surroundings.load().warnings == (
        "~/.vibe/.env: other users can read the keys in it, run: chmod 600 ~/.vibe/.env",
    )


def test_what_the_process_has_wins_over_the_file(surroundings: Surroundings) -> None:
    surroundings.user_file("A=file\nB=file\nC=file\n", ".env")
    environ = surroundings.load(environ={"A": "process", "B": ""}).environ
    assert (environ["A"], environ["B"], environ["C"]) == ("process", "", "file")


def test_settings_in_the_file_are_variables_and_say_where(surroundings: Surroundings) -> None:
    surroundings.user_file("\nVIBE_ACTIVE_MODEL=local\n", ".env")
    loaded = surroundings.load()
    assert loaded.config.active_model == "local"
    assert loaded.origins["active_model"] == "VIBE_ACTIVE_MODEL (~/.vibe/.env:2)"


def test_no_secret_is_in_an_origin_or_a_warning(surroundings: Surroundings) -> None:
    surroundings.user_file("MISTRAL_API_KEY=sk-secret\nVIBE_API_KEY=sk-secret\nsk-secret\n", ".env").chmod(0o644)
    loaded = surroundings.load()
    assert len(loaded.warnings) == 3
    assert "sk-secret" not in repr((loaded.config, loaded.origins, loaded.warnings))
