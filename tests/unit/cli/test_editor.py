from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from vibe.cli.editor import open_editor
from vibe.system.errors import EnvironmentFailure


@dataclass
class Surroundings:
    environ: dict[str, str]
    cwd: Path
    stdout: io.StringIO


def edit(tmp_path: Path, **environ: str) -> str:
    path = tmp_path / "a file"
    path.write_text("old", encoding="utf-8")
    surroundings = Surroundings({"PATH": "/usr/bin:/bin", **environ}, tmp_path, io.StringIO())
    open_editor(path, cast("Any", surroundings), instead=", or do without")
    return path.read_text(encoding="utf-8")


def test_visual_goes_before_editor_and_may_have_words_of_its_own(tmp_path: Path) -> None:
    assert edit(tmp_path, VISUAL="sed -i s/old/new/", EDITOR="false") == "new"


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({}, "no editor: set EDITOR to one, such as EDITOR=nano, or do without"),
        ({"EDITOR": "false"}, "the editor 'false' ended with exit code 1, so nothing was changed: set VISUAL or EDITOR"),
        ({"EDITOR": "no-such-editor"}, "the editor 'no-such-editor' can't be started .*: set VISUAL or EDITOR to another"),
        ({"EDITOR": "vi '"}, "can't be started .No closing quotation.: .*, or do without$"),
    ],
    ids=["none", "fails", "missing", "no command"],
)  # fmt: skip
def test_an_editor_that_can_not_be_had_is_said(tmp_path: Path, environ: dict[str, str], said: str) -> None:
    with pytest.raises(EnvironmentFailure, match=said):
        edit(tmp_path, **environ)
