from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.unit.core.tools import shell_lab
from tests.unit.core.tools.bash_hostile_lines import HOSTILE
from tests.unit.core.tools.bash_lines import EVASIONS, EVERYDAY, UNREADABLE
from tests.unit.core.tools.bash_option_lines import HIDDEN
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
    assert len({*EVASIONS, *HOSTILE}) == len(EVASIONS) + len(HOSTILE) >= 500


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


@pytest.mark.parametrize("line", [*EVASIONS, *UNREADABLE, *HOSTILE, *HIDDEN])
def test_a_way_round_is_asked_about_or_denied(line: str, template: ShellLab) -> None:
    verdict = judge(line, template)
    assert verdict.permission is not ToolPermission.ALWAYS
    assert verdict.reason


@pytest.mark.parametrize("line", [*EVASIONS, *HIDDEN])
def test_a_way_round_would_have_done_something(line: str, template: ShellLab, tmp_path: Path) -> None:
    program = line.split(maxsplit=1)[0]
    if (
        "EVERY_PROGRAM" not in os.environ
        and program in {"rg", "make", "perl", "curl", "patch", "file", "tree"}
        and shutil.which(program, path=template.environ()["PATH"]) is None
    ):
        pytest.skip(f"{program} is not installed")
    lab = shell_lab.copy(template, tmp_path / "lab", repositories="git" in line.lower())
    before = lab.state()
    printed = lab.run(line)
    shown = any(sign in printed for sign in ("SECRET-", "missing.so", "outside/secret.txt"))
    assert shown or lab.state() != before, printed


@pytest.mark.parametrize("ignore", [".gitignore", ".ignore", ".rgignore", "src/../.git/info/exclude"])
@pytest.mark.parametrize(("shown", "found"), [("!.env", True), ("src/\n!/.e*/", True), ("!.env.example", False)])
def test_an_ignore_file_that_shows_a_hidden_secret_makes_a_search_a_question(
    ignore: str,
    shown: str,
    found: bool,  # noqa: FBT001  a table
    template: ShellLab,
    tmp_path: Path,
) -> None:
    lab = shell_lab.copy(template, tmp_path / "lab")
    shutil.rmtree(lab.work / "config")
    (lab.work / ".git" / "info").mkdir(exist_ok=True)
    assert judge("rg SECRET", lab).permission is ToolPermission.ALWAYS
    (lab.work / ignore).write_text(shown)
    assert (judge("rg SECRET", lab).permission is None) is found
    assert judge("diff a.txt b.txt", lab).permission is ToolPermission.ALWAYS


def test_comparing_folders_with_a_link_in_them_is_asked_about(template: ShellLab) -> None:
    assert judge("diff src src", template).permission is None
    assert "deep-link" in judge("diff src src", template).reason


def test_a_filter_may_not_ask_for_what_a_module_says(template: ShellLab) -> None:
    assert judge("jq -n '\"x\" | modulemeta'", template).permission is None
