from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from anyio import create_task_group

from tests.unit.core.tools.builtins.calling import Caller, make
from tests.unit.core.tools.watching import alive, pid_in
from vibe.core.tools.builtins.grep import Grep
from vibe.core.tools.errors import PathError, ToolError
from vibe.core.tools.files import search
from vibe.core.tools.files.search import BadPatternError, Query
from vibe.core.tools.workspace import Workspace
from vibe.system.programs import find_ripgrep

NOTHING = (
    "no matches; ignored and generated files are searched only if use_default_ignore is false, binary ones never, and one "
    "that may hold secrets only where `path` names it"
)
BACKENDS = [pytest.param(True, id="ripgrep"), pytest.param(False, id="python")]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    files = {
        ".gitignore": "ignored/\n*.log\n!keep.log\n",
        ".vibeignore": "private/\n",
        ".github/ci.yml": "needle: ci\n",
        ".git/config": "needle\n",
        "node_modules/x/index.js": "needle\n",
        "build/out.txt": "needle\n",
        "ignored/a.txt": "needle\n",
        "private/a.txt": "needle\n",
        "a.log": "needle\n",
        "keep.log": "needle log\n",
        "src/b.py": "one\nneedle = 1\nx\nneedle = 2\n",
        "src/a.py": "# needle\r\n",
        "src/sub/.gitignore": "local.txt\n",
        "src/sub/local.txt": "needle\n",
        "src/sub/other.txt": "é needle é\n",
        "src-2/z.py": "needle\n",
        ".env": "TOKEN=needle\n",
        "deploy.pem": "needle\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode())
    (root / "binary.bin").write_bytes(b"\0\0needle\n")
    (root / "link.py").symlink_to(root / "src" / "b.py")
    return root


EXPECTED = """\
.github/ci.yml:1:needle: ci
keep.log:1:needle log
src-2/z.py:1:needle
src/a.py:1:# needle
src/b.py:2:needle = 1
src/b.py:4:needle = 2
src/sub/other.txt:1:é needle é"""


@pytest.mark.parametrize("use_ripgrep", BACKENDS)
async def test_both_ways_to_search_give_the_same_answer(root: Path, use_ripgrep: bool) -> None:  # noqa: FBT001  pytest's parameter
    tool = make(Grep, use_ripgrep=use_ripgrep)
    result = await Caller(root=root).call(tool, pattern="needle")
    assert sorted(result.matches.splitlines()) == sorted(EXPECTED.splitlines())
    assert (result.match_count, result.was_truncated) == (7, False)
    below = await Caller(root=root).call(tool, pattern=r"^needle = \d", path="src")
    assert below.matches == "src/b.py:2:needle = 1\nsrc/b.py:4:needle = 2"


async def test_both_ways_to_search_give_the_same_order(root: Path) -> None:
    answers = [
        (await Caller(root=root).call(make(Grep, use_ripgrep=way), pattern="needle")).matches for way in (True, False)
    ]
    assert answers[0] == answers[1]


@pytest.mark.parametrize("use_ripgrep", BACKENDS)
async def test_ignored_files_are_searched_when_asked_but_secrets_are_not(root: Path, use_ripgrep: bool) -> None:  # noqa: FBT001  pytest's parameter
    result = await Caller(root=root).call(
        make(Grep, use_ripgrep=use_ripgrep), pattern="needle", use_default_ignore=False
    )
    paths = {line.partition(":")[0] for line in result.matches.splitlines()}
    assert {"a.log", "build/out.txt", "private/a.txt", "src/sub/local.txt", "node_modules/x/index.js"} <= paths
    assert not {".env", "deploy.pem", "link.py", "binary.bin"} & paths


@pytest.mark.parametrize("use_ripgrep", BACKENDS)
async def test_a_file_named_outright_is_searched(root: Path, use_ripgrep: bool) -> None:  # noqa: FBT001  pytest's parameter
    tool = make(Grep, use_ripgrep=use_ripgrep)
    assert (await Caller(root=root).call(tool, pattern="TOKEN", path=".env")).matches == ".env:1:TOKEN=needle"
    assert (await Caller(root=root).call(tool, pattern="needle", path="a.log")).matches == "a.log:1:needle"
    judged = tool.assess(tool.parse({"pattern": "x", "path": ".env"}), Workspace(root=root))
    assert [access.path for access in judged.paths] == [".env"]


@pytest.mark.parametrize("use_ripgrep", BACKENDS)
async def test_matches_and_bytes_are_bounded_and_that_is_said(root: Path, use_ripgrep: bool) -> None:  # noqa: FBT001  pytest's parameter
    (root / "many.txt").write_text("match\n" * 5_000 + "m" * 100_000 + "\n", encoding="utf-8")
    tool = make(Grep, use_ripgrep=use_ripgrep)
    caller = Caller(root=root)
    result = await caller.call(tool, pattern="^match$")
    assert (result.match_count, result.was_truncated) == (100, True)
    assert tool.format_result(result).endswith("[first 100 matches; narrow pattern or path, or raise max_matches]")
    assert (await caller.call(tool, pattern="^match$", max_matches=3)).match_count == 3
    small = make(Grep, use_ripgrep=use_ripgrep, max_output_bytes=1_000)
    bounded = await caller.call(small, pattern="^match$", max_matches=5_000)
    assert len(bounded.matches) <= 1_000
    assert bounded.was_truncated
    exact = await caller.call(tool, pattern="needle", max_matches=7)
    assert (exact.match_count, exact.was_truncated) == (7, False)
    long = await caller.call(tool, pattern="mmmm")
    assert long.match_count == 1
    assert len(long.matches) < 600


@pytest.mark.parametrize("use_ripgrep", BACKENDS)
async def test_a_pattern_that_is_no_expression_is_a_clear_error(root: Path, use_ripgrep: bool) -> None:  # noqa: FBT001  pytest's parameter
    with pytest.raises(BadPatternError, match=r"'needle\(' is not a regular expression: .*; escape"):
        await Caller(root=root).call(make(Grep, use_ripgrep=use_ripgrep), pattern="needle(")


@pytest.mark.parametrize("use_ripgrep", BACKENDS)
async def test_a_pattern_that_one_of_the_engines_does_not_take_is_no_fault(
    tmp_path: Path,
    use_ripgrep: bool,  # noqa: FBT001  pytest's parameter
) -> None:
    (tmp_path / "old.txt").write_bytes(b"caf\xe9\n")
    caller, tool = Caller(root=tmp_path), make(Grep, use_ripgrep=use_ripgrep)
    assert not (await caller.call(tool, pattern="\0")).matches
    with pytest.raises(BadPatternError):
        await caller.call(tool, pattern="f**")


def test_a_line_without_an_end_is_searched_as_far_as_memory_reaches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "LONGEST_LINE", 100)
    (tmp_path / "long").write_bytes(b"needle" + b"x" * 200 + b"\nneedle\n")
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(20 << 30)
    query = Query(pattern="(?<=n)eedle", root=tmp_path, start=tmp_path, use_ignores=True, most=9, max_bytes=9_000)
    assert [match.number for match in search.scan(query).matches] == [1]


@pytest.mark.parametrize("use_ripgrep", BACKENDS)
async def test_a_pattern_may_look_like_an_option(root: Path, use_ripgrep: bool) -> None:  # noqa: FBT001  pytest's parameter
    (root / "x").write_text("--files\n", encoding="utf-8")
    result = await Caller(root=root).call(make(Grep, use_ripgrep=use_ripgrep), pattern="--files", path="x")
    assert result.matches == "x:1:--files"


@pytest.mark.parametrize("use_ripgrep", BACKENDS)
async def test_odd_file_names_and_lines_stay_on_one_line(root: Path, use_ripgrep: bool) -> None:  # noqa: FBT001  pytest's parameter
    (root / "odd\nname\x1b[31m:2:.txt").write_bytes(b"odd one \x1b[0m\xff\n")
    result = await Caller(root=root).call(make(Grep, use_ripgrep=use_ripgrep), pattern="odd one")
    assert result.matches == "odd\\nname\\x1b[31m:2:.txt:1:odd one \\x1b[0mÿ"


@pytest.mark.parametrize("use_ripgrep", BACKENDS)
async def test_nothing_found_is_said(root: Path, use_ripgrep: bool) -> None:  # noqa: FBT001  pytest's parameter
    tool = make(Grep, use_ripgrep=use_ripgrep)
    assert tool.format_result(await Caller(root=root).call(tool, pattern="no such text")) == NOTHING


async def test_places_outside_and_missing_are_refused(root: Path) -> None:
    with pytest.raises(PathError, match="leads outside the workspace"):
        await Caller(root=root).call(make(Grep), pattern="x", path="..")
    with pytest.raises(PathError, match="'nowhere' does not exist"):
        await Caller(root=root).call(make(Grep), pattern="x", path="nowhere")


async def test_a_search_that_takes_too_long_is_stopped(root: Path) -> None:
    (root / "slow.txt").write_text("a" * 40 + "!\n", encoding="utf-8")
    tool = make(Grep, use_ripgrep=False, default_timeout=2)
    with pytest.raises(ToolError, match="took longer than 2 s"):
        await Caller(root=root).call(tool, pattern="(a+)+$", path="slow.txt")


async def test_ripgrep_is_killed_when_the_call_is_cancelled(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "bin" / "rg"
    slow.parent.mkdir()
    slow.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n", encoding="utf-8")
    slow.chmod(slow.stat().st_mode | stat.S_IXUSR)

    def scripts(_name: str) -> str:
        return str(slow.parent)

    monkeypatch.setattr("sysconfig.get_path", scripts)
    assert find_ripgrep({}) == str(slow)
    searcher = 0
    async with create_task_group() as tasks:
        tasks.start_soon(lambda: Caller(root=root).call(make(Grep), pattern="x"))
        searcher = await pid_in(tmp_path / "pid")
        tasks.cancel_scope.cancel()
    assert searcher
    assert not alive(searcher)


@pytest.mark.parametrize("use_ripgrep", [True, False])
@pytest.mark.parametrize("name", [".gitignore", ".ignore", "sub/.gitignore", "../.gitignore"])
async def test_a_named_pipe_where_patterns_should_be_keeps_nobody(
    tmp_path: Path, name: str, use_ripgrep: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "PIPE_CHECK_SECONDS", 0.2)
    root = tmp_path / "w"
    (root / "sub").mkdir(parents=True)
    os.mkfifo(root / name)
    (root / "sub" / "a.txt").write_text("here\n")
    tool = make(Grep, use_ripgrep=use_ripgrep, default_timeout=20)
    result = await Caller(root=root).call(tool, pattern="here")
    assert result.matches == "sub/a.txt:1:here"


async def test_a_named_pipe_is_not_searched(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PathError, match="is a named pipe"):
        await Caller(root=tmp_path).call(make(Grep), pattern="x", path="pipe")


@pytest.mark.parametrize("use_ripgrep", BACKENDS)
async def test_what_is_passed_over_is_a_setting(tmp_path: Path, use_ripgrep: object) -> None:
    for name in ("build/a.txt", "mine/a.txt", "listed/a.txt", "a.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("needle\n")
    (tmp_path / ".codeignore").write_text("listed/\n")
    settings = {
        "exclude_patterns": ["mine", ".codeignore"],
        "codeignore_file": ".codeignore",
        "use_ripgrep": use_ripgrep,
    }
    result = await Caller(root=tmp_path).call(make(Grep, **settings), pattern="needle")
    assert result.matches == "a.txt:1:needle\nbuild/a.txt:1:needle"
