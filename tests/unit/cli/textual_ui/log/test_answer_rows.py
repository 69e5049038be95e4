from __future__ import annotations

from collections.abc import Iterable

from hypothesis import example, given, settings, strategies as st
from rich.segment import Segment
from textual.strip import Strip

from vibe.cli.textual_ui.log.markdown_blocks import PIECE, blocks_of
from vibe.cli.textual_ui.log.painter import AnswerRows
from vibe.cli.textual_ui.log.rows import LogBlock, Row

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


def answer() -> AnswerRows:
    return AnswerRows(laid_out, 80, 0)


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
    assert shown(answer().rows(text, ended=True)) == shown(laid_out(blocks_of(text + "\n", 80)))


def test_lines_of_an_open_listing_are_read_once() -> None:
    read: list[int] = []

    def counted(blocks: Iterable[LogBlock]) -> list[Row]:
        rows = laid_out(blocks)
        read.append(len(rows))
        return rows

    streaming = AnswerRows(counted, 80, 0)
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
