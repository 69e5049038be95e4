from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from vibe.cli.textual_ui.log.entry import LogEntry, clean, clean_coloured, middle_cut

HOSTILE = st.lists(
    st.sampled_from([
        "\x1b",
        "[",
        "]52;c;",
        "\x07",
        "\\",
        "31m",
        "2J",
        "?1049l",
        "\x9b",
        "\r",
        "\n",
        "\u202e",
        "\x00",
        "a",
        "é",
        "\t",
        "P",
        "8;;http://x",
    ])
).map("".join)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]52;c;aGk=\x07x", "x"),
        ("\x1b]0;title\x1b\\x", "x"),
        ("a\x1b[2Jb\x1b[?1049lc", "abc"),
        ("\x9b31mx\x00\x0e", "31mx"),
        ("abc\u202edef\u2066g", "abcdefg"),
        ("10 %\r50 %\r100 %\r\ndone", "100 %\ndone"),
        ("[red]not markup[/red]", "[red]not markup[/red]"),
        ("tab\tstays", "tab\tstays"),
        ("👩‍👩‍👧 שלום", "👩‍👩‍👧 שלום"),
    ],
)
def test_escapes_and_controls_go_and_text_stays(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_a_long_line_is_cut_with_a_note() -> None:
    assert clean("x" * 1_000_000 + "\nnext") == "x" * 4000 + " …(+996000)\nnext"


def test_only_colours_of_a_shell_stay() -> None:
    assert clean_coloured("\x1b[31mred\x1b[0m\x1b[2J\x1b]52;c;x\x07\x1b[1;1H!") == "\x1b[31mred\x1b[0m!"


@given(HOSTILE)
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    assert not {char for char in clean(text) if (ord(char) < 32 and char not in "\n\t") or 127 <= ord(char) < 160}
    coloured = clean_coloured(text).split("\x1b")
    assert all(part.startswith("[") and "m" in part for part in coloured[1:])


@given(HOSTILE, st.lists(st.integers(0, 60)))
def test_pieces_become_the_text_that_the_whole_does(text: str, cuts: list[int]) -> None:
    for kind in ("call", "shell"):
        entry = LogEntry(kind)
        places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
        for start, end in pairwise(places):
            entry.add_text(text[start:end])

        assert entry.text == LogEntry(kind, text).text


def test_a_line_without_end_that_streams_stays_bounded() -> None:
    entry = LogEntry("call", status="running")
    for _ in range(300):
        entry.add_text("x" * 1000)
    assert len(entry.text) < 5000


def test_a_text_can_be_set_again() -> None:
    entry = LogEntry("answer", "one\ntwo")
    entry.set_text("other\ntext")
    entry.add_text(" and more\n")

    assert entry.text == "other\ntext and more\n"


def test_the_middle_of_many_lines_is_left_out() -> None:
    lines = [str(number) for number in range(10)]
    assert middle_cut(lines, 4) == (["0", "1"], 6, ["8", "9"])
    assert middle_cut(lines, 10) == (lines, 0, [])
