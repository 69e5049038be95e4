from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.unit.core.tools import shell_lab
from tests.unit.core.tools.bash_lines import EVASIONS, EVERYDAY, UNREADABLE
from tests.unit.core.tools.shell_lab import SECRET, ShellLab
from vibe.core.tools.base import ToolPermission
from vibe.core.tools.bash_policy import (
    DEFAULT_ALLOWED,
    DEFAULT_DENIED,
    DEFAULT_DENIED_STANDALONE,
    BashVerdict,
    classify,
)
from vibe.core.tools.workspace import Workspace


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> ShellLab:
    return shell_lab.build(tmp_path_factory.mktemp("lab") / "template")


def judge(line: str, lab: ShellLab) -> BashVerdict:
    return classify(
        line, DEFAULT_ALLOWED, DEFAULT_DENIED, standalone=DEFAULT_DENIED_STANDALONE, workspace=Workspace(root=lab.work)
    )


def test_the_tables_are_long_enough_and_say_nothing_twice() -> None:
    assert len(set(EVERYDAY)) == len(EVERYDAY) >= 60
    assert len(set(EVASIONS)) == len(EVASIONS) >= 200


@pytest.mark.parametrize("line", EVERYDAY)
def test_everyday_looking_runs_unasked(line: str, template: ShellLab) -> None:
    verdict = judge(line, template)
    assert verdict.permission is ToolPermission.ALWAYS, verdict.reason


def test_everyday_looking_changes_nothing_and_shows_no_secret(template: ShellLab, tmp_path: Path) -> None:
    lab = shell_lab.copy(template, tmp_path / "lab")
    before = lab.state()
    printed = "".join(lab.run(line) for line in EVERYDAY)
    assert lab.state() == before
    assert SECRET not in printed


@pytest.mark.parametrize("line", [*EVASIONS, *UNREADABLE])
def test_a_way_round_is_asked_about_or_denied(line: str, template: ShellLab) -> None:
    verdict = judge(line, template)
    assert verdict.permission is not ToolPermission.ALWAYS
    assert verdict.reason


@pytest.mark.parametrize("line", EVASIONS)
def test_a_way_round_would_have_done_something(line: str, template: ShellLab, tmp_path: Path) -> None:
    program = line.split(maxsplit=1)[0]
    if (
        program in {"rg", "make", "perl", "curl", "patch", "file"}
        and shutil.which(program, path=template.environ()["PATH"]) is None
    ):
        pytest.skip(f"{program} is not installed")
    lab = shell_lab.copy(template, tmp_path / "lab", repositories="git" in line.lower())
    before = lab.state()
    printed = lab.run(line)
    shown = any(sign in printed for sign in ("SECRET-", "missing.so", "outside/secret.txt"))
    assert shown or lab.state() != before, printed
