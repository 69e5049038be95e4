from __future__ import annotations

import pytest

from planner.report.formatting import one_line as document_line, time_text
from vibe.front.event_text import one_line as terminal_line
from vibe.front.request_text import visible
from vibe.front.start_screen import past_time
from vibe.system.plain_text import date_text, plain, plain_line
from vibe.view.figures import ago

HOSTILE = "a\x1b[31mb\x1b]0;title\x07c\x9b\x00\u202ed\u2066e\ufeff\U000e0041\ud800\u0378f"


def test_what_could_move_a_cursor_or_hide_is_gone_and_lines_stay() -> None:
    assert plain(HOSTILE) == "abcdef"
    assert plain("\x9b31mred\x9b0m end") == "red end"
    assert plain("  one\r\n\ttwo\x85\u2028") == "  one\n\ttwo"


FAMILY, RAINBOW, CODER = (
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\U0001f3f3\ufe0f\u200d\U0001f308",
    "\U0001f469\U0001f3fd\u200d\U0001f4bb",
)
ENGLAND, GERMANY, KEYCAP = (
    "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "\U0001f1e9\U0001f1ea",
    "1\ufe0f\u20e3",
)


@pytest.mark.parametrize("emoji", [FAMILY, RAINBOW, CODER, ENGLAND, GERMANY, KEYCAP, "\u26a0\ufe0f"])
def test_an_emoji_of_several_characters_stays_whole(emoji: str) -> None:
    assert plain(f"a {emoji} b\x00") == plain_line(f"a {emoji} b") == visible(f"a {emoji} b") == f"a {emoji} b"


@pytest.mark.parametrize("word", ["\u0645\u06cc\u200c\u0634\u0648\u062f", "\u0915\u094d\u200d\u0937"])
def test_a_word_keeps_what_joins_its_letters_or_keeps_them_apart(word: str) -> None:
    assert plain(f"a {word} b\x00") == plain_line(f"a {word} b") == f"a {word} b"
    assert plain("a\u200cb \u200c\u0634 \u0634\u200c") == "ab \u0634 \u0634"


@pytest.mark.parametrize(
    "hidden", ["a\u200db", "x\ufe0f", "\u3164\ufe0f", "\U0001f3f4\U000e0061\U000e0062", "\u200d\U0001f468"]
)
def test_what_joins_no_emoji_is_told_where_a_person_decides(hidden: str) -> None:
    assert visible(hidden).isascii() or "\\" in visible(hidden)


@pytest.mark.parametrize("text", [HOSTILE, "a\u2028b\x85c\rd\n e", "\x1b", "\u0378", "plain"])
def test_a_terminal_and_a_document_show_the_same(text: str) -> None:
    assert terminal_line(text) == document_line(text)
    assert terminal_line("a\u2028b\x85c\rd\n e") == "a b c d e"


@pytest.mark.parametrize("damaged", [1e300, -1e300, 1e17, -1e17])
def test_a_moment_that_no_calendar_has_is_told_all_the_same(damaged: float) -> None:
    assert date_text(damaged, "%Y") == f"{damaged:g}"
    assert (time_text(damaged), time_text(0)) == (f"{damaged:g}", "")
    assert past_time(damaged, 1e9)
    assert ago(damaged, 1e9)
    assert date_text(86_400, "%Y-%m-%d", utc=True) == "1970-01-02"
