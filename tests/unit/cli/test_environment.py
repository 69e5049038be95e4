from __future__ import annotations

import io
from pathlib import Path

import pytest

from vibe.app.engine.host import DEEPEST, depth_of, existing_folder
from vibe.cli.environment import CliEnvironment
from vibe.system.errors import EnvironmentFailure


def environment(**environ: str) -> CliEnvironment:
    return CliEnvironment(
        home=Path("/h"),
        cwd=Path("/c"),
        environ=environ,
        stdout=io.StringIO(),
        stderr=io.StringIO(),
        stdin=io.StringIO(),
    )


def test_the_home_is_below_the_users_by_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("VIBE_HOME", raising=False)

    assert CliEnvironment.from_process().home == tmp_path / ".vibe"


@pytest.mark.parametrize(("chosen", "below"), [("elsewhere", "cwd/elsewhere"), ("~/own", "user/own")])
def test_a_chosen_home_is_made_absolute(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, chosen: str, below: str
) -> None:
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("VIBE_HOME", chosen)

    found = CliEnvironment.from_process()

    assert found.home == tmp_path / below
    assert found.cwd == tmp_path / "cwd"


def test_the_variables_are_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    before = CliEnvironment.from_process().environ
    monkeypatch.setenv("VIBE_TEST_LATER", "1")

    assert "VIBE_TEST_LATER" not in before


def test_the_runtime_folder_is_absolute_or_none() -> None:
    assert environment(XDG_RUNTIME_DIR="/run/user/1").runtime_dir == Path("/run/user/1")
    assert environment(XDG_RUNTIME_DIR="run").runtime_dir is None
    assert environment(XDG_RUNTIME_DIR="").runtime_dir is None
    assert environment().runtime_dir is None


def test_a_current_folder_that_is_gone_is_no_fault_of_the_command_line(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match=r"^the current folder is gone"):
        existing_folder("--workdir", None, tmp_path / "gone")


def test_a_depth_of_any_length_is_read() -> None:
    assert depth_of({"VIBE_DEPTH": "9" * 5_000}) > DEEPEST
