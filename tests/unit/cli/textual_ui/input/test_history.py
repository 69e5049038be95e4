"""The file of prompts, shared with prompt_toolkit."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from prompt_toolkit.history import FileHistory

from vibe.cli.textual_ui.input.history import MOST_BYTES, HistoryWalk, keep_prompt, load_prompts

TEXTS = ["one", "two\nlines", "\n\nblank lines\n\nwithin\n", "+plus\n# no comment", "ünïcödé ✓", "  indented"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "home" / "history"


def toolkit(file: Path) -> list[str]:
    """Return the prompts that ``--plain`` reads, oldest first."""
    return list(FileHistory(str(file)).load_history_strings())[::-1]


def test_prompt_toolkit_reads_what_is_appended(file: Path) -> None:
    for text in TEXTS:
        keep_prompt(file, text)

    assert toolkit(file) == TEXTS


def test_what_prompt_toolkit_wrote_is_read(file: Path) -> None:
    file.parent.mkdir()
    for text in TEXTS:
        FileHistory(str(file)).store_string(text)

    assert load_prompts(file) == TEXTS


def test_both_add_to_one_file(file: Path) -> None:
    keep_prompt(file, "ours")
    FileHistory(str(file)).store_string("theirs")
    keep_prompt(file, "ours again")

    assert load_prompts(file) == toolkit(file) == ["ours", "theirs", "ours again"]


def test_the_file_is_the_users_alone(file: Path) -> None:
    before = os.umask(0)
    try:
        keep_prompt(file, "secret")
    finally:
        os.umask(before)

    assert file.stat().st_mode & 0o777 == 0o600


def test_many_at_once_lose_and_mix_nothing(file: Path) -> None:
    texts = {f"{number}\n" + "x" * 20_000 for number in range(16)}
    threads = [threading.Thread(target=keep_prompt, args=(file, text)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert set(toolkit(file)) == texts


def test_no_file_is_no_history(file: Path) -> None:
    assert load_prompts(file) == []


def test_what_is_not_utf8_is_read_too(file: Path) -> None:
    file.parent.mkdir()
    file.write_bytes(b"\n# then\n+caf\xe9\n")

    assert load_prompts(file) == ["caf\ufffd"]


def test_repeats_are_left_out(file: Path) -> None:
    for text in ["a", "a", "b", "a"]:
        keep_prompt(file, text)

    assert load_prompts(file) == ["a", "b", "a"]


def test_of_a_huge_file_the_newest_whole_entries_are_read(file: Path) -> None:
    keep_prompt(file, "old " * (MOST_BYTES // 4))
    keep_prompt(file, "new")
    keep_prompt(file, "newest")

    assert load_prompts(file) == ["new", "newest"]


def test_the_walk_keeps_its_place_when_older_prompts_arrive() -> None:
    walk = HistoryWalk()
    walk.add("b")
    assert walk.go(1, "draft") == "b"
    walk.put_before(["a"])

    assert walk.go(1, "b") == "a"
    assert walk.go(1, "a") is None
    assert (walk.go(-1, "a"), walk.go(-1, "b"), walk.go(-1, "draft")) == ("b", "draft", None)


def test_the_same_prompt_twice_in_a_row_is_kept_once() -> None:
    walk = HistoryWalk()

    assert [walk.add(text) for text in ["a", "a", "b", "a"]] == [True, False, True, True]


def test_a_search_finds_all_words_newest_first_and_each_prompt_once() -> None:
    walk = HistoryWalk()
    walk.put_before(["fix the Parser", "write docs", "parser: FIX tests", "fix the Parser", "fix it"])

    assert walk.search("parser fix", 10) == ["fix the Parser", "parser: FIX tests"]
    assert walk.search("fix", 1) == ["fix it"]
