"""Pastes and keys in a terminal's input."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, strategies as st

from vibe.cli.textual_ui.palettes import BackgroundReported
from vibe.cli.textual_ui.terminal_driver import BEGIN, END, Pasted, PasteStream

Item = str | Pasted | BackgroundReported


def joined(items: list[Item]) -> list[Item]:
    """Join adjacent keys into one string."""
    whole: list[Item] = []
    for item in items:
        if isinstance(item, str) and whole and isinstance(whole[-1], str):
            whole[-1] += item
        else:
            whole.append(item)
    return whole


def fed(stream: PasteStream, *pieces: str) -> list[Item]:
    return joined([item for piece in pieces for item in stream.feed(piece)])


def test_keys_and_pastes_come_in_their_order() -> None:
    assert fed(PasteStream(), f"ab{BEGIN}one\rtwo{END}c{BEGIN}{END}\x1b[A") == [
        "ab",
        Pasted("one\rtwo"),
        "c",
        Pasted(""),
        "\x1b[A",
    ]


@given(st.data())
def test_reads_may_end_anywhere(data: st.DataObject) -> None:
    text = f"a\x1b[A{BEGIN}x\x1b[2J\x1b[20{BEGIN}é{END}\x1b[B{BEGIN}last\x1b{END}z"
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text) - 1))))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]

    whole = ["a\x1b[A", Pasted(f"x\x1b[2J\x1b[20{BEGIN}é"), "\x1b[B", Pasted("last\x1b"), "z"]
    assert fed(PasteStream(), *pieces) == whole


def test_a_lone_escape_is_held_only_until_nothing_followed() -> None:
    stream = PasteStream()

    assert fed(stream, "\x1b") == []
    assert stream.holds_escape
    assert list(stream.release()) == ["\x1b"]
    assert not stream.holds_escape
    assert fed(stream, "x") == ["x"]


def test_a_paste_whose_end_never_comes_is_given_up_and_keys_are_keys_again() -> None:
    stream = PasteStream()

    assert fed(stream, f"{BEGIN}half of it\x1b[20") == []
    assert list(stream.give_up()) == [Pasted("half of it\x1b[20")]
    assert fed(stream, "\x03") == ["\x03"]
    assert fed(stream, "typed by a fast hand, all at once, and more") == ["typed by a fast hand, all at once, and more"]
    assert list(stream.give_up()) == []


def test_the_rest_of_a_paste_that_was_given_up_is_never_typed() -> None:
    stream = PasteStream()
    fed(stream, f"{BEGIN}rm -rf one\r")
    list(stream.give_up())

    assert fed(stream, "rm -rf two\r" * 9, f"last\r{END}x") == [Pasted("rm -rf two\r" * 9), Pasted("last\r"), "x"]


def test_a_late_end_alone_is_no_key() -> None:
    stream = PasteStream()
    fed(stream, f"{BEGIN}all of it")
    list(stream.give_up())

    assert fed(stream, END, "y") == [Pasted(""), "y"]


def test_five_megabytes_in_small_reads_are_fast() -> None:
    stream, text = PasteStream(), "x\x1b[0m" * 1_000_000
    start = time.process_time()
    items = fed(stream, BEGIN, *(text[at : at + 4096] for at in range(0, len(text), 4096)), END)

    assert items == [Pasted(text)]
    assert time.process_time() - start < 5


REPORTS = [
    "\x1b]11;?\x07",
    "\x1b]12;rgb:ffff/ffff/ffff\x1b\\",
    "\x1b]10;rgb:1/2/3\x9c",
    "\x1bP>|tmux 3.5a\x1b\\",
    "\x1bP1$r0m\x1b\\",
    "\x1b_Gi=31;OK\x1b\\",
    "\x1b[?64;1;9;15;22c",
    "\x1b[>41;330;0c",
    "\x1b[?1u",
    "\x1b[0n",
]
KEYS = "\x1b[A\x1b[1;5C\x1b[13;2u\x1b[<0;3;4M\x1b[?2026;2$y\x1bOP\x1b[3~"


@pytest.mark.parametrize("report", REPORTS)
def test_an_answer_of_the_terminal_is_no_typing_wherever_it_is_cut(report: str) -> None:
    for cut in range(len(report) + 1):
        pieces = (f"ab{report[:cut]}", f"{report[cut:]}cd{KEYS}")
        assert fed(PasteStream(), *pieces) == [f"abcd{KEYS}"], cut


@pytest.mark.parametrize(
    ("answer", "is_dark"),
    [
        ("\x1b]11;rgb:0000/0000/0000\x07", True),
        ("\x1b]11;rgb:1e1e/1e1e/2e2e\x1b\\", True),
        ("\x1b]11;rgb:f/f/f\x9c", False),
        ("\x1b]11;rgba:FDFD/F6F6/E3E3/FFFF\x1b\\", False),
    ],
)
def test_the_background_of_the_terminal_is_taken_out_of_what_is_typed_wherever_it_is_cut(
    answer: str,
    is_dark: bool,  # noqa: FBT001  a parameter of the table
) -> None:
    for cut in range(len(answer) + 1):
        pieces = (f"ab{answer[:cut]}", f"{answer[cut:]}cd{KEYS}")
        assert fed(PasteStream(), *pieces) == ["ab", BackgroundReported(is_dark=is_dark), f"cd{KEYS}"], cut


@pytest.mark.parametrize(("scheme", "is_dark"), [("1", True), ("2", False)])
def test_a_terminal_that_becomes_dark_or_light_says_so_and_no_key_is_lost(scheme: str, *, is_dark: bool) -> None:
    answer = f"\x1b[?997;{scheme}n"
    for cut in range(len(answer) + 1):
        items = fed(PasteStream(), f"ab{answer[:cut]}", f"{answer[cut:]}cd{KEYS}")
        assert [item for item in items if not isinstance(item, str)] == [BackgroundReported(is_dark=is_dark)], cut
        assert "".join(item for item in items if isinstance(item, str)) == f"abcd{KEYS}", cut


def test_of_an_answer_as_long_as_it_likes_little_is_kept() -> None:
    stream = PasteStream()
    assert fed(stream, "\x1b]11;rgb:0/0/0", *["0" * 1000] * 1000, "\x07x") == [BackgroundReported(is_dark=True), "x"]
    assert fed(stream, "\x1b]0;title", *["0" * 1000] * 10, "\x07x") == ["x"]


def test_an_answer_without_an_end_is_over_soon_and_swallows_no_enter() -> None:
    stream = PasteStream()
    assert fed(stream, "a\x1b]11;rgb:00", "\rb") == ["a\rb"]
    assert fed(stream, "\x1b]11;rgb:00\x1b[A") == ["\x1b[A"]
    assert fed(stream, "\x1b]11;rgb") == []
    assert not stream.holds_escape
    list(stream.give_up())
    assert fed(stream, "c") == ["c"]


@pytest.mark.parametrize("report", [*REPORTS, "\x1b[<35;10;5M", "\x1b[1;5C"])
def test_of_an_answer_that_comes_in_pieces_or_never_ends_nothing_is_typed(report: str) -> None:
    for cut in range(2, len(report)):
        stream = PasteStream()
        assert fed(stream, report[:cut]) == []
        assert not stream.holds_escape, "more may follow, however slow the line is"
        if cut > 2:
            assert [*stream.give_up(), *stream.release()] == []
            assert fed(stream, "c") == ["c"]


@pytest.mark.parametrize("key", ["\x1b]", "\x1bP", "\x1b_", "\x1b[", "\x1b"])
def test_alt_and_a_key_are_no_answer(key: str) -> None:
    stream = PasteStream()
    assert fed(stream, key) + list(stream.release()) == [f"\x1b[{ord(key[1])};3u" if key[1:] not in {"", "["} else key]


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ("\x1b[27;2;13~", "\x1b[13;2u"),
        ("\x1b[27;5;9~", "\x1b[9;5u"),
        ("\x1b\r", "\x1b[13;3u"),
        ("\x1bd", "\x1b[100;3u"),
        ("\x1b\x7f", "\x1b[127;3u"),
        ("\x1bé", "\x1b[233;3u"),
    ],
)
def test_a_key_with_modifiers_is_said_in_the_one_way_that_is_read(sent: str, read: str) -> None:
    for cut in range(1, len(sent)):
        assert fed(PasteStream(), sent[:cut], sent[cut:]) == [read]
