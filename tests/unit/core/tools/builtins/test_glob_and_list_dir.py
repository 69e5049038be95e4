from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.core.tools.builtins.calling import Caller, make
from vibe.core.tools.builtins.glob import Glob
from vibe.core.tools.builtins.grep import Grep
from vibe.core.tools.builtins.list_dir import ListDir
from vibe.core.tools.builtins.read_file import ReadFile
from vibe.core.tools.builtins.search_replace import SearchReplace
from vibe.core.tools.errors import PathError, ToolError
from vibe.core.tools.workspace import Workspace
from vibe.system.own_places import OwnPlaces


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


async def test_what_stands_in_a_folder_only_while_commands_run_is_not_listed(tmp_path: Path) -> None:
    (tmp_path / ".vibe").mkdir()
    (tmp_path / ".vibe").chmod(0o1755)
    (tmp_path / ".agents").mkdir()
    result = await Caller(root=tmp_path).call(make(ListDir))
    assert (result.entries, result.total) == ([".agents/"], 1)


async def test_neither_leaves_the_workspace(tree: Path) -> None:
    for arguments in ({"path": ".."}, {"path": "link"}, {"path": "/"}):
        with pytest.raises(PathError, match="leads outside the workspace"):
            await Caller(root=tree).call(make(ListDir), **arguments)
        with pytest.raises(PathError, match="leads outside the workspace"):
            await Caller(root=tree).call(make(Glob), pattern="*", **arguments)


async def test_what_is_no_folder_is_said(tree: Path) -> None:
    with pytest.raises(ToolError, match=r"'a\.py' is not a folder"):
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


@pytest.fixture
def odd_tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    names = ("src/a.ts", "src/b.tsx", "src/c.py", "app/[id]/page.tsx", "app/i/page.tsx", "build/out.js", "{x}/y.py")
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


@pytest.mark.parametrize(
    ("pattern", "path", "paths"),
    [
        ("**/*.{ts,tsx}", ".", ["app/[id]/page.tsx", "app/i/page.tsx", "src/a.ts", "src/b.tsx"]),
        ("*.{ts,py}", "src", ["src/a.ts", "src/c.py"]),
        ("app/[id]/page.tsx", ".", ["app/[id]/page.tsx"]),
        ("app/[id]/*", ".", ["app/[id]/page.tsx"]),
        ("[id]/*", "app", ["app/[id]/page.tsx"]),
        ("{x}/*.py", ".", ["{x}/y.py"]),
        ("{root}/src/*.py", ".", ["src/c.py"]),
        ("{root}/src/*.py", "app", ["src/c.py"]),
        ("{root}/src", ".", ["src/a.ts", "src/b.tsx", "src/c.py"]),
        ("./src/*.py", ".", ["src/c.py"]),
        ("src/", ".", ["src/a.ts", "src/b.tsx", "src/c.py"]),
        ("src/../src/*.py", ".", ["src/c.py"]),
        ("../src/*.py", "app", ["src/c.py"]),
        ("build/*.js", ".", ["build/out.js"]),
        ("build", ".", []),
        ("~/tree/src/*.py", ".", ["src/c.py"]),
    ],
)
async def test_glob_finds_what_a_pattern_means(
    odd_tree: Path, monkeypatch: pytest.MonkeyPatch, pattern: str, path: str, paths: list[str]
) -> None:
    monkeypatch.setenv("HOME", str(odd_tree.parent))
    arguments = {"pattern": pattern.replace("{root}", str(odd_tree)), "path": path}
    assert (await Caller(root=odd_tree).call(make(Glob), **arguments)).paths == paths


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("lib/*.py", "no files match: there is no folder 'lib'"),
        ("*.js", "no files match but ignored ones: set use_default_ignore to false"),
        ("!(a).py", "no files match: '!(' is taken literally"),
        ("*.rs", "no files match"),
    ],
)
async def test_glob_says_why_nothing_matches(odd_tree: Path, pattern: str, why: str) -> None:
    tool = make(Glob)
    assert tool.format_result(await Caller(root=odd_tree).call(tool, pattern=pattern)).startswith(why)


async def test_a_pattern_that_leads_outside_is_refused_and_its_folder_named(odd_tree: Path) -> None:
    tool = make(Glob)
    with pytest.raises(PathError, match="leads outside the workspace"):
        await Caller(root=odd_tree).call(tool, pattern="../*")
    judged = tool.assess(tool.parse({"pattern": "/etc/*.conf"}), Workspace(root=odd_tree))
    assert [access.path for access in judged.paths] == ["/etc"]


@pytest.mark.skipif(sys.platform == "darwin", reason="its names are text")
@pytest.mark.parametrize("name", [b"bad\xff.txt", b"a\nb.txt", b"\xe9\x1b[31m.txt"])
async def test_a_name_as_it_is_listed_is_taken_back(tmp_path: Path, name: bytes) -> None:
    file = tmp_path / "d\udcfe" / os.fsdecode(name)
    file.parent.mkdir()
    file.write_text("needle\n")
    (tmp_path / ".gitignore").write_text("*.pyc\n")
    caller = Caller(root=tmp_path)
    listed = [tool.format_result(await caller.call(tool, **given)) for tool, given in listings()]
    shown = listed[0]
    assert shown.isprintable()
    assert listed[1:] == [".gitignore  6\nd\\udcfe/", f"{shown}:1:needle"]
    assert (await caller.call(make(ReadFile), path=shown)).content == "needle\n"
    assert len((await caller.call(make(Glob), pattern=shown)).paths) == 1
    await caller.call(make(SearchReplace), file_path=shown, old_string="needle", new_string="thread")
    assert file.read_text() == "thread\n"
    assert "1:thread" in (await caller.call(make(Grep), pattern="thread", path=shown)).matches
    assert sorted(os.listdir(tmp_path)) == [".gitignore", "d\udcfe"]  # noqa: PTH208  not a path


def listings() -> list[tuple[Any, dict[str, str]]]:
    return [(make(Glob), {"pattern": "*.txt"}), (make(ListDir), {}), (make(Grep), {"pattern": "needle"})]


async def test_places_of_our_own_are_not_shown_unless_they_are_named(tmp_path: Path) -> None:
    home = tmp_path / ".vibe"
    (home / "logs").mkdir(parents=True)
    (home / "logs" / "x.txt").write_text("needle\n")
    (tmp_path / "y.txt").write_text("needle\n")
    caller = Caller(root=tmp_path, own_places=OwnPlaces(home=home))
    assert (await caller.call(make(Glob), pattern="*.txt", use_default_ignore=False)).paths == ["y.txt"]
    for way in (True, False):
        assert (await caller.call(make(Grep, use_ripgrep=way), pattern="needle")).files == ["y.txt"]
    assert (await caller.call(make(ListDir))).entries == ["y.txt  7"]
    assert (await caller.call(make(Glob), pattern=".vibe/logs/*")).paths == [".vibe/logs/x.txt"]
