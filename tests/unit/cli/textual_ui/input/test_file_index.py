"""The files that ``@`` finds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from vibe.cli.textual_ui.input import file_index
from vibe.cli.textual_ui.input.file_index import FileIndex, workspace_files
from vibe.cli.textual_ui.input.prompt_input import best

PATHS = ["README.md", "src/main.py", "src/mainly/other.py", "tests/test_main.py", "src/map_in.py"]


def never() -> bool:
    return False


def no_program(_environ: Mapping[str, str]) -> str | None:
    return None


def index_of(*paths: str) -> FileIndex:
    index = FileIndex(Path("/nowhere"), lambda _root, _is_stale: paths)
    index.refresh(never)
    return index


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ["a.py", "b c.py", ".hidden/x", "build/out", "secret/s", "logs/l.log", "sub/kept.log", ".git/config"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / ".gitignore").write_text("logs/\n")
    (tmp_path / ".vibeignore").write_text("secret/\n")
    return tmp_path


def test_ripgrep_and_our_own_walk_list_the_same(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [".gitignore", ".hidden/x", ".vibeignore", "a.py", "b c.py", "sub/kept.log"]
    assert sorted(workspace_files(project, never)) == wanted
    monkeypatch.setattr("vibe.cli.textual_ui.input.file_index.find_ripgrep", no_program)

    assert sorted(workspace_files(project, never)) == wanted


def test_the_best_come_first() -> None:
    assert index_of(*PATHS).search("main", 3, never) == ["src/main.py", "tests/test_main.py", "src/mainly/other.py"]


def test_before_anything_is_typed_the_files_next_to_the_root_are_offered() -> None:
    assert index_of("a/b/c", "a/d", "e").search("", 2, never) == ["e", "a/d"]


def test_a_longer_query_is_looked_for_among_what_fitted_and_a_shorter_one_among_all() -> None:
    index = index_of(*PATHS)
    alone = [index_of(*PATHS).search(query, 9, never) for query in ["m", "ma", "mai", "ma", "x", "README"]]

    assert [index.search(query, 9, never) for query in ["m", "ma", "mai", "ma", "x", "README"]] == alone


def test_a_stale_search_says_nothing_and_spoils_nothing() -> None:
    index = index_of(*PATHS)

    assert index.search("m", 9, lambda: True) is None
    assert index.search("main", 1, never) == ["src/main.py"]


def test_a_search_that_becomes_stale_stops_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_index, "PAUSE_SECONDS", 0)
    index = index_of(*(f"a{number}" for number in range(20_000)))
    asked = 0

    def stale() -> bool:
        nonlocal asked
        asked += 1
        return asked > 12

    assert index.search("a", 9, stale) is None
    assert asked < 16


@pytest.mark.parametrize("query", ["m", "ma", "main", "mn", "o/m", "tsm", "s", "py", "xq", "moo", "sos"])
def test_of_many_files_the_same_are_best_as_of_few(query: str) -> None:
    parts = ["main", "my", "other", "some_main", "Models", "x"]
    paths = [f"{a}/{b}/{c}_{d}.{a[:2]}" for a in parts for b in parts for c in parts for d in parts]

    assert index_of(*paths).search(query, 20, never) == [paths[place] for place in best(query, paths)[:20]]


def test_names_that_cannot_be_shown_or_mentioned_are_left_out() -> None:
    assert index_of("a\x1b[2J", "a\nb", 'a"b', "a\udcff", "a", "a b").search("a", 9, never) == ["a", "a b"]


def test_files_are_listed_once_until_that_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = 0

    def files(_root: Path, _is_stale: Callable[[], bool]) -> list[str]:
        nonlocal listed
        listed += 1
        return [f"a{listed}"]

    index = FileIndex(Path("/nowhere"), files)
    assert not index.is_ready
    assert index.refresh(never)
    assert not index.refresh(never)
    monkeypatch.setattr(file_index, "OLD_SECONDS", -1.0)
    assert index.refresh(never)

    assert index.search("a", 9, never) == ["a2"]


def test_two_threads_do_not_list_at_once() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def files(_root: Path, _is_stale: Callable[[], bool]) -> Iterator[str]:
        begun.set()
        go_on.wait(10)
        yield "a"

    index = FileIndex(Path("/nowhere"), files)
    thread = threading.Thread(target=index.refresh, args=(never,))
    thread.start()
    assert begun.wait(10)
    assert not index.refresh(never)
    assert index.search("a", 9, never) == []
    go_on.set()
    thread.join()

    assert index.search("a", 9, never) == ["a"]


def test_a_folder_that_is_gone_has_no_files(tmp_path: Path) -> None:
    index = FileIndex(tmp_path / "gone")

    assert not index.refresh(never)
    assert index.search("a", 9, never) == []


def test_a_listing_that_nobody_waits_for_is_stopped(project: Path) -> None:
    index = FileIndex(project)

    assert not index.refresh(lambda: True)
    assert not index.is_ready
