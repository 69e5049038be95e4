from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.core.tools.builtins.calling import Caller, make
from vibe.core.tools.builtins.glob import Glob
from vibe.core.tools.builtins.list_dir import ListDir
from vibe.core.tools.errors import PathOutsideError, ToolError


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for name in ("b.py", "a.py", "src/z.py", "src/deep/x.py", "src/notes.md", "node_modules/m.py", "out/o.py", ".env"):
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("12345")
    (root / ".gitignore").write_text("out/\n")
    (tmp_path / "outside.py").touch()
    (root / "link").symlink_to(tmp_path)
    return root


@pytest.mark.parametrize(
    ("pattern", "path", "paths"),
    [
        ("*.py", ".", ["a.py", "b.py", "src/deep/x.py", "src/z.py"]),
        ("src/*.py", ".", ["src/z.py"]),
        ("**/*.py", "src", ["src/deep/x.py", "src/z.py"]),
        ("deep/*", "src", ["src/deep/x.py"]),
        ("*.rs", ".", []),
    ],
)
async def test_glob_finds_sorted_and_leaves_out_what_is_ignored(
    tree: Path, pattern: str, path: str, paths: list[str]
) -> None:
    result = await Caller(root=tree).call(make(Glob), pattern=pattern, path=path)

    assert (result.paths, result.was_truncated) == (paths, False)


async def test_glob_is_bounded_and_can_show_what_is_ignored(tree: Path) -> None:
    bounded = make(Glob, max_results=2)
    result = await Caller(root=tree).call(bounded, pattern="*.py")
    assert (result.paths, result.was_truncated) == (["a.py", "b.py"], True)
    assert bounded.format_result(result).endswith("[first 2 files; narrow the pattern or the path]")

    everything = await Caller(root=tree).call(make(Glob), pattern="[mo].py", use_default_ignore=False)
    assert everything.paths == ["node_modules/m.py", "out/o.py"]


async def test_list_dir_tells_folders_files_and_links_apart(tree: Path) -> None:
    tool = make(ListDir)

    result = await Caller(root=tree).call(tool)

    assert result.entries == [".env  5", ".gitignore  5", "a.py  5", "b.py  5", "link@", "src/"]
    assert "node_modules/" in (await Caller(root=tree).call(tool, use_default_ignore=False)).entries
    assert (await Caller(root=tree).call(make(ListDir, max_entries=2))).was_truncated


async def test_neither_leaves_the_workspace(tree: Path) -> None:
    for arguments in ({"path": ".."}, {"path": "link"}, {"path": "/"}):
        with pytest.raises(PathOutsideError):
            await Caller(root=tree).call(make(ListDir), **arguments)
        with pytest.raises(PathOutsideError):
            await Caller(root=tree).call(make(Glob), pattern="*", **arguments)


async def test_what_is_no_folder_is_said(tree: Path) -> None:
    with pytest.raises(ToolError, match=r"'a\.py' is no folder"):
        await Caller(root=tree).call(make(ListDir), path="a.py")
    with pytest.raises(ToolError, match="'nosuch' does not exist"):
        await Caller(root=tree).call(make(Glob), pattern="*", path="nosuch")


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[31mb", "a\rb", "a\x85b", "a\u2028b", "a\u202eb", "a\udc80b"])
async def test_a_name_that_breaks_lines_or_steers_terminals_is_escaped(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.py").touch()
    for tool, arguments in ((make(Glob), {"pattern": "*.py"}), (make(ListDir), {})):
        told = tool.format_result(await Caller(root=tmp_path).call(tool, **arguments))
        assert told.startswith(f"a{ascii(name[1])[1:-1]}")
        assert told.isprintable()
        assert told.isascii()
