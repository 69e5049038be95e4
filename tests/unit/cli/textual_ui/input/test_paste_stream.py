"""Pastes and keys in what a terminal sends."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from vibe.cli.textual_ui.terminal_driver import BEGIN, END, Pasted, PasteStream

Item = str | Pasted


def joined(items: list[Item]) -> list[Item]:
    """Keys that came one after the other as one string."""
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
    assert stream.is_holding
    assert list(stream.release()) == ["\x1b"]
    assert not stream.is_holding
    assert fed(stream, "x") == ["x"]


def test_a_paste_whose_end_never_comes_is_given_up_and_keys_are_keys_again() -> None:
    stream = PasteStream()

    assert fed(stream, f"{BEGIN}half of it\x1b[20") == []
    assert stream.is_pasting
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
