"""The order of paths for a few typed letters."""

from __future__ import annotations

from hypothesis import given, strategies as st

from vibe.cli.textual_ui.input.file_index import cost, letters
from vibe.cli.textual_ui.input.prompt_input import best


def order(query: str, *paths: str) -> list[str]:
    """Return the matching paths in their order, which must not depend on the order of ``paths``."""
    forward = [paths[place] for place in best(query, paths)]
    backward = [paths[::-1][place] for place in best(query, paths[::-1])]
    assert forward == backward
    return forward


def test_the_basename_beats_the_path_and_that_beats_spread_letters() -> None:
    assert order("log", "lib/other/gap.py", "logs/a.py", "src/a_log.py", "log", "src/blogs.py", "src/log.py") == [
        "log",
        "src/log.py",
        "src/a_log.py",
        "src/blogs.py",
        "logs/a.py",
        "lib/other/gap.py",
    ]


def test_letters_at_joints_beat_letters_anywhere() -> None:
    assert order("pi", "aa/prompt_input.py", "aa/xpxxixxxxxxx.py") == ["aa/prompt_input.py", "aa/xpxxixxxxxxx.py"]


def test_spread_letters_in_the_basename_beat_those_in_the_path() -> None:
    assert order("tst", "src/the_store.py", "t/s/the.py") == ["src/the_store.py", "t/s/the.py"]


def test_part_of_a_path_is_found_and_short_paths_come_first() -> None:
    assert order("cli/run", "vibe/cli/run/more.py", "vibe/cli/run.py", "run/cli.py") == [
        "vibe/cli/run.py",
        "vibe/cli/run/more.py",
    ]


def test_equals_stay_in_their_order() -> None:
    assert best("a", ["ba", "ca", "a", "da"]) == [2, 0, 1, 3]


def test_the_case_of_letters_does_not_matter() -> None:
    assert order("READ", "docs/README.md", "src/reader.py") == ["src/reader.py", "docs/README.md"]


def test_what_lacks_a_letter_does_not_fit() -> None:
    assert cost("xyz", "src/xy.py") is None
    assert cost("ba", "ab") is None


@given(st.text(max_size=12), st.integers(0, 30), st.text(max_size=30))
def test_whatever_is_taken_out_of_a_path_finds_it_and_passes_its_letters(query: str, step: int, rest: str) -> None:
    path = (rest[:step] + query + rest[step:]).lower()
    query = query.lower()

    assert cost(query, path) is not None
    assert letters(path) & letters(query) == letters(query)


@given(st.text("ab/_", max_size=8), st.text("ab/_.", max_size=20))
def test_a_longer_query_fits_no_more(query: str, path: str) -> None:
    if cost(query, path) is None:
        assert cost(query + "a", path) is None
