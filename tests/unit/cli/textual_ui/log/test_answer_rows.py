from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from random import Random

import pytest
from hypothesis import example, given, settings, strategies as st
from rich.segment import Segment
from textual.strip import Strip

from tests.unit.cli.textual_ui.log.page import LogPage
from vibe.cli.textual_ui.log.markdown_blocks import PIECE, blocks_of
from vibe.cli.textual_ui.log.painter import AnswerRows
from vibe.cli.textual_ui.log.rows import GUTTER, LogBlock, Row, lay_out

LINES = (
    "word", "two words", "# head", "#", "===", "---", "- ", "- item", "-", "  - below", "    code", "1. one", "2) two", "> said", ">",
    "```", "```py", "````", "~~~", "  ```python", "x = '''", "'''", "def f(): pass", "| a | b |", "|---|---|", "| 1 | `2|` |",
    "**bold", "*it*", "[a](http://b.c)", "[a]: /b", "[a]", "https://x.y/z", "<b>", "![i](j)", "\\", "&amp;", "  ", "", "", "\tt",
    "* * *", "```not`a fence", "`````", "1.", "+", "para\\",
)  # fmt: skip
TEXTS = st.lists(st.sampled_from(LINES), max_size=14).map("\n".join)


def shown(rows: Iterable[Row]) -> list[str]:
    return [row.text for row in rows]


def words(rows: Iterable[Row]) -> list[str]:
    """Return the text of rows without their colours."""
    return [row.text.partition("\0")[0] for row in rows]


def laid_out(blocks: Iterable[LogBlock]) -> list[Row]:
    """Return a row for each line, with everything that is known about its look."""
    return [
        Row(Strip([Segment(f"{block.rest if number else block.first}{line.plain}\0{line.spans}{block.look}")]))
        for block in blocks
        for number, line in enumerate(block.content.split("\n", allow_blank=True))
    ]


def looks(rows: Iterable[Row]) -> list[tuple[str | None, list[tuple[str, str]]]]:
    """Return the characters of rows with their styles, and what wrapping removed before each row."""
    return [(row.glue, [(char, f"{style}") for text, style, _ in row.strip for char in text]) for row in rows]


def answer() -> AnswerRows:
    return AnswerRows(laid_out, 80)


@settings(max_examples=60)
@given(TEXTS, st.lists(st.integers(0, 120), max_size=30))
@example("a\n#\nb", [3])
@example("a\n#hash", [3])
@example("```py\n" + "x = '''\n" * (PIECE + 3) + "```\nend", [10, 99, 2000])
def test_an_answer_that_streams_ends_as_the_whole_of_it_read_at_once(text: str, cuts: list[int]) -> None:
    streaming = answer()
    for cut in sorted({cut for cut in cuts if cut < len(text)}):
        streaming.rows(text[:cut], ended=False)

    assert shown(streaming.rows(text, ended=True)) == shown(answer().rows(text, ended=True))


@settings(max_examples=30)
@given(TEXTS)
def test_a_stream_shows_at_every_line_what_there_is_so_far(text: str) -> None:
    streaming = answer()
    for end in (place for place, char in enumerate(text, start=1) if char == "\n"):
        assert words(streaming.rows(text[:end], ended=False)) == words(answer().rows(text[:end], ended=True))


@settings(max_examples=30)
@given(TEXTS)
def test_the_blocks_of_a_text_read_at_once_are_those_of_its_parts(text: str) -> None:
    assert shown(answer().rows(text, ended=True)) == shown(laid_out(blocks_of(text.removesuffix("\n") + "\n", 80)))


def test_lines_of_an_open_listing_are_read_once() -> None:
    read: list[int] = []

    def counted(blocks: Iterable[LogBlock]) -> list[Row]:
        rows = laid_out(blocks)
        read.append(len(rows))
        return rows

    streaming = AnswerRows(counted, 80)
    text = "before\n\n```python\n"
    rows = streaming.rows(text, ended=False)
    read.clear()
    for number in range(PIECE - 1):
        text += f"x{number} = 1\n"
        rows = streaming.rows(text, ended=False)

    assert len(rows) == PIECE + 1
    assert sum(read) == PIECE - 1


def test_finished_blocks_keep_their_rows() -> None:
    streaming = answer()
    streaming.rows("one\n\ntwo\n\nthree\n", ended=False)
    first = streaming.rows("one\n\ntwo\n\nthree\n\nfo", ended=False)
    second = streaming.rows("one\n\ntwo\n\nthree\n\nfour\n\nfive", ended=False)

    assert all(old is new for old, new in zip(first[:3], second[:3], strict=True))


PIECES = (
    "word", "two ", " ", " ", " *it*", "**open ", "close**", " `code", "` ", " `a b`", "[a](http://b.c)", " [text", "](u) ", " www.foo.com ",
    "snake_case ", " ~~s~~ ", "\\*", "end\\ ", " &amp; ", "<b>", " 日本語の長い文字列 ", "👩\u200d👩\u200d👧", "long" * 11, "1. ", "| ", " -- ", "\t",
)  # fmt: skip


@pytest.mark.parametrize("before", ["", "one\n\n", "- item\n\ntwo\n\n"])
async def test_a_paragraph_that_grows_looks_at_every_moment_as_the_whole_of_it_read_at_once(before: str) -> None:
    random = Random(before)
    app = LogPage()
    async with app.run_test():
        for cols in (9, 14, 33) * 4:
            rows_of = partial(lay_out, app.log_view, cols=cols)
            streaming, text = AnswerRows(rows_of, cols - GUTTER), f"{before}So"
            for _ in range(25):
                text += random.choice(PIECES)
                whole = rows_of(blocks_of(f"{text}\n", cols - GUTTER, is_open=True))
                assert looks(streaming.rows(text, ended=False)) == looks(whole), text


def test_of_a_paragraph_that_grows_only_the_last_rows_are_laid_out_again() -> None:
    laid: list[int] = []

    def counted(blocks: Iterable[LogBlock]) -> list[Row]:
        lines = [line.plain.rstrip() for block in blocks for line in block.content.wrap(20)]
        laid.append(len(lines))
        return [Row(Strip([Segment(f"  {line}")]), " " if number else None) for number, line in enumerate(lines)]

    streaming, text = AnswerRows(counted, 20), ""
    for number in range(300):
        text += f"word{number} "
        shown = [row.text[2:] for row in streaming.rows(text, ended=False)]
        assert " ".join(shown) == text.rstrip()
    assert max(laid) == 2
