"""Folders that this user may not look into: each tool says so, and no walk over the workspace fails on them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.unprivileged import folder_of_nobody
from tests.unit.core.tools.builtins.calling import Caller, make
from vibe.app.engine.host import existing_folder
from vibe.core.config.models import ProjectContextConfig
from vibe.core.instructions.project_context import draw_tree
from vibe.core.instructions.project_docs import NestedDocs
from vibe.core.tools.builtins.glob import Glob
from vibe.core.tools.builtins.grep import Grep
from vibe.core.tools.builtins.list_dir import ListDir
from vibe.core.tools.builtins.read_file import ReadFile
from vibe.core.tools.builtins.search_replace import SearchReplace
from vibe.core.tools.builtins.write_file import WriteFile
from vibe.core.tools.errors import ToolError
from vibe.core.tools.workspace import Workspace
from vibe.system.errors import UsageError
from vibe.system.ignore import list_entries, walk_files


@pytest.fixture
def root() -> Iterator[Path]:
    """Yield a workspace with a file, and a folder ``shut`` that this user may not look into."""
    with folder_of_nobody() as folder:
        (folder / "a.txt").write_text("x")
        (folder / "shut/below").mkdir(parents=True)
        (folder / "shut").chmod(0)
        yield folder.resolve()


@pytest.mark.parametrize("path", ["shut/below", "shut/below/a.txt"])
@pytest.mark.parametrize(
    ("tool", "more"),
    [
        (ReadFile, {}),
        (ListDir, {}),
        (Grep, {"pattern": "x"}),
        (Glob, {"pattern": "*"}),
        (WriteFile, {"content": "x"}),
        (SearchReplace, {"old_string": "x", "new_string": "y"}),
    ],
)
async def test_what_lies_in_a_closed_folder_is_not_called_missing(
    root: Path, tool: Any, more: dict[str, Any], path: str
) -> None:
    with pytest.raises(ToolError, match="may not be accessed by this user"):
        await Caller(root=root).call(make(tool), path=path, **more)


@pytest.mark.parametrize(("tool", "more"), [(ListDir, {}), (Grep, {"pattern": "x"}), (Glob, {"pattern": "*"})])
async def test_a_closed_folder_is_not_called_empty(root: Path, tool: Any, more: dict[str, Any]) -> None:
    with pytest.raises(ToolError, match="may not be accessed by this user"):
        await Caller(root=root).call(make(tool), path="shut", **more)


def test_a_closed_folder_costs_nothing_but_itself(root: Path) -> None:
    docs = NestedDocs(root=root, origin=root, trusts=lambda _: True)

    assert list(walk_files(root, root, use_ignores=True)) == [root / "a.txt"]
    assert list_entries(root, root, use_ignores=True) == [root / "a.txt", root / "shut"]
    assert draw_tree(root, None, ProjectContextConfig())[0] == "a.txt\nshut/"
    assert docs.notices([root / "shut/below/a.txt", root / "shut/below"]) == ()


def test_a_closed_repository_keeps_no_file_from_being_written(root: Path) -> None:
    (root / "shut").rename(root / ".git")

    assert not Workspace(root=root).is_control(root / "a.txt")
    assert Workspace(root=root).is_control(root / ".git/config")


def test_a_folder_to_work_in_that_is_closed_is_refused_in_a_sentence(root: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        existing_folder("--workdir", "shut/below", root)
