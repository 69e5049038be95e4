from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.unit.shell.policy import shell_lab
from tests.unit.shell.policy.bash_red_team_lines import LAYOUTS, TRICKS
from tests.unit.shell.policy.shell_lab import SECRET, ShellLab
from vibe.core.tools.base import ToolPermission
from vibe.core.tools.workspace import Workspace
from vibe.shell.policy.verdict import DEFAULT_ALLOWED, DEFAULT_DENIED, DEFAULT_DENIED_STANDALONE, classify

SOON = 30
"""Seconds after which a line that runs without approval must have ended by itself, on a busy machine."""


def runs_unasked(line: str, lab: ShellLab) -> bool:
    verdict = classify(
        line, DEFAULT_ALLOWED, DEFAULT_DENIED, standalone=DEFAULT_DENIED_STANDALONE, workspace=Workspace(root=lab.work)
    )
    return verdict.permission is ToolPermission.ALWAYS


def assert_harmless(line: str, lab: ShellLab) -> None:
    before = lab.state()
    started = time.monotonic()
    printed = lab.run(line)
    assert time.monotonic() - started < SOON, line
    assert lab.state() == before, line
    assert "SECRET-" not in printed, line
    assert SECRET not in printed, line


def test_the_tables_are_long_enough() -> None:
    assert len(set(LAYOUTS)) == len(LAYOUTS) >= 150
    assert len(set(TRICKS)) == len(TRICKS) >= 400


@pytest.mark.parametrize(("prepared", "line"), LAYOUTS)
def test_a_repository_or_a_name_made_for_it_does_no_harm_unasked(
    prepared: str, line: str, template: ShellLab, tmp_path: Path
) -> None:
    lab = shell_lab.copy(template, tmp_path / "lab", repositories="git" in f"{prepared} {line}")
    lab.run(prepared)
    (lab.base / "canary").unlink(missing_ok=True)
    if runs_unasked(line, lab):
        assert_harmless(line, lab)


def test_a_trick_does_no_harm_unasked(template: ShellLab, tmp_path: Path) -> None:
    for number, line in enumerate(line for line in TRICKS if runs_unasked(line, template)):
        assert_harmless(line, shell_lab.copy(template, tmp_path / f"lab{number}", repositories="git" in line))
