from __future__ import annotations

from pathlib import Path

import pytest
from acp.schema import ContentToolCallContent, FileEditToolCallContent, TextContentBlock

from ipc.events import ToolCallEvent
from vibe.acp.updates import TEXT_LENGTH, as_code, changes_of, locations_of, text_of
from vibe.core.tools.edits import file_diff

ROOT = Path("/project")


def edit(**arguments: object) -> ToolCallEvent:
    return ToolCallEvent(tool_call_id="c", tool="search_replace", arguments={"file_path": "a.txt", **arguments})


def pieces(diff: str) -> list[tuple[str | None, str]]:
    found = changes_of(diff, edit(), ROOT)
    assert all(isinstance(one, FileEditToolCallContent) and one.path == "/project/a.txt" for one in found)
    return [(one.old_text, one.new_text) for one in found if isinstance(one, FileEditToolCallContent)]


def test_each_place_of_a_change_is_a_piece_of_its_own() -> None:
    before = [f"line {number}" for number in range(40)]
    after = [*before[:2], "new", *before[3:30], *before[31:]]

    found = pieces(file_diff("a.txt", "\n".join(before), "\n".join(after)).text)

    assert len(found) == 2
    assert found[0] == tuple("".join(f"{line}\n" for line in lines[:6]) for lines in (before, after))
    assert "line 30" in (found[1][0] or "")
    assert "line 30" not in found[1][1]


def test_lines_that_look_like_the_marks_of_a_diff_are_text() -> None:
    assert pieces(file_diff("a.txt", "-- a\n++ b\nx", "-- a\n++ c\nx").text) == [("-- a\n++ b\nx", "-- a\n++ c\nx")]


def test_a_diff_that_was_cut_ends_where_it_was() -> None:
    diff = file_diff("a.txt", "\n".join(map(str, range(600))), "\n".join(f"{number}!" for number in range(600))).text

    assert "more lines" in diff
    assert not any("more lines" in text for pair in pieces(diff) for text in pair if text)


def test_a_new_file_has_no_old_text() -> None:
    call = ToolCallEvent(tool_call_id="c", tool="write_file", arguments={"path": "a.txt", "content": "hello"})

    (found,) = changes_of("", call, ROOT)

    assert isinstance(found, FileEditToolCallContent)
    assert (found.old_text, found.new_text) == (None, "hello")


@pytest.mark.parametrize("text", ["plain", "has ``` in it", "has ```` and ``` in it"])
def test_code_can_not_end_its_own_fence(text: str) -> None:
    first, *lines, last = as_code(text).split("\n")

    assert first == last
    assert first not in text
    assert "\n".join(lines) == text


def test_a_long_text_is_shown_by_its_ends_and_without_escapes() -> None:
    (found,) = text_of("\x1b[31mred\x1b[0m" + "x" * 10 * TEXT_LENGTH + "end")

    assert isinstance(found, ContentToolCallContent)
    assert isinstance(found.content, TextContentBlock)
    assert found.content.text.startswith("redx")
    assert found.content.text.endswith("end")
    assert len(found.content.text) < 2 * TEXT_LENGTH


def test_a_file_is_followed_to_its_line() -> None:
    (found,) = locations_of({"path": "a.txt", "offset": 9}, ROOT)

    assert (found.path, found.line) == ("/project/a.txt", 10)
    assert locations_of({"path": "a\0b"}, ROOT) == []
    assert locations_of({"path": 3}, ROOT) == []
