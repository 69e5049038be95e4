"""The port through which the shell asks about the workspace of a line."""

from __future__ import annotations

from pathlib import Path

from vibe.core.tools.errors import ToolError
from vibe.core.tools.workspace import Workspace
from vibe.shell.errors import CommandStartError
from vibe.shell.policy.verdict import classify
from vibe.shell.port import Roots, ToolPermission


class OneFolder:
    """A workspace with only the part that a judge needs."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def resolve(self, path: str) -> Path:
        return (self.root / path).resolve()

    def contains(self, resolved: Path, *, write: bool = False) -> bool:
        return resolved.is_relative_to(self.root) and not write

    def relative(self, path: Path) -> str:
        return str(path.relative_to(self.root))


def test_a_line_is_judged_in_any_place_that_tells_what_is_inside(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "work"
    root.mkdir()
    (root / "a.txt").write_text("one\n")
    places: list[Roots] = [OneFolder(root), Workspace(root=root)]

    for place in places:
        inside, outside = (classify(line, ("cat",), (), workspace=place) for line in ("cat a.txt", "cat ../b.txt"))
        assert (inside.permission, outside.permission) == (ToolPermission.ALWAYS, None)


def test_a_command_that_can_not_be_started_is_no_tool_s_error() -> None:
    error = CommandStartError(Path("/gone"), "no such folder")

    assert not isinstance(error, ToolError)
    assert str(error) == "can't start a command in '/gone': no such folder"
