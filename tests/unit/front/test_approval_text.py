"""The text that a person reads before approving, and the reading of their answer."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from ipc.events import ApprovalRequestEvent, CommandDisplay, DiffDisplay, Display, WrittenFile
from vibe.core.tools.ports import ApprovalAnswer
from vibe.front.request_text import (
    foot_of,
    head_of,
    parse_answer,
    possible_answers,
    prompt_of,
    question_text,
    shown_arguments,
    visible,
)

EDIT = ("edit", "a\\x1b, b?", "+1 −2")  # noqa: RUF001  a minus


def request(tool: str, summary: str, covers: tuple[str, ...] = (), **arguments: Any) -> ApprovalRequestEvent:
    return ApprovalRequestEvent(
        request_id="r",
        tool_call_id="c",
        tool=tool,
        arguments=arguments,
        summary=summary,
        edits=tool in {"write_file", "search_replace"},
        rule="permission",
        reason=f"{tool} needs your approval",
        covers=covers,
    )


def test_a_command_is_shown_whole_however_long() -> None:
    command = "echo start\n" + "x" * 5_000 + "\nrm -rf build"
    text = question_text(request("bash", command, ("bash: rm", "bash: echo"), command=command), "clean")
    assert text.splitlines() == [
        "",
        "? run  for step clean",
        "    command: echo start",
        "      " + "x" * 5_000,
        "      rm -rf build",
        "    command begins with: echo start",
        "  rule: bash asks",
        "  s or a would allow: rm, echo",
    ]


def test_a_command_is_not_repeated_because_its_blanks_were_joined() -> None:
    text = question_text(request("bash", "printf 'a: b' > f", command="printf 'a:    b' > f\n"))
    assert text.count("printf") == 1


def test_a_file_is_shown_with_a_bounded_preview_that_counts_what_it_leaves_out() -> None:
    content = "".join(f"line {n}\n" for n in range(100))
    text = question_text(
        request("write_file", "write_file a.py (790 bytes)", path="a.py", content=content, overwrite=True)
    )
    lines = text.splitlines()
    assert lines[1:5] == ["? write a.py?", "    write_file a.py (790 bytes)", "    content:", "    | line 0"]
    assert "    | line 19" in lines
    assert "    | line 20" not in lines
    assert "      … 640 more characters in 80 more lines" in lines
    assert "    overwrite: true" in lines


def test_a_short_file_is_shown_whole() -> None:
    lines = question_text(request("write_file", "write_file a", path="a", content="one\ntwo\n")).splitlines()
    assert lines[3:5] == ["    | one", "    | two"]
    assert not any("…" in line for line in lines)


def test_one_endless_line_is_cut() -> None:
    text = question_text(request("write_file", "write_file a", path="a", content="x" * 90_000))
    assert "… 88,000 more characters" in text
    assert len(text) < 3_000


def test_nothing_in_a_request_reaches_the_terminal_raw() -> None:
    evil = "\x1b[2K\rls\u202e\x9b1A\x07\ud800"
    text = question_text(
        request(evil, evil, (evil,), command=f"{evil}\nls", content=f"{evil}\n" * 3, note=evil, other=[evil]), evil
    )
    assert not [char for char in text if (char < " " and char != "\n") or char in "\u202e\x9b\x7f\ud800"]
    assert "\\x1b[2K\\rls\\u202e\\x9b1A\\x07\\ud800" in text


def test_what_prints_is_shown_as_it_is() -> None:
    assert visible("naïve 漢字 👍 a\\b") == "naïve 漢字 👍 a\\b"


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("y", ApprovalAnswer(allow=True)),
        (" YES \r", ApprovalAnswer(allow=True)),
        ("s", ApprovalAnswer(allow=True, scope="session")),
        ("session", ApprovalAnswer(allow=True, scope="session")),
        ("1", ApprovalAnswer(allow=True)),
        ("2", ApprovalAnswer(allow=True, scope="session")),
        ("3", ApprovalAnswer(allow=True, scope="always")),
        ("Always", ApprovalAnswer(allow=True, scope="always")),
        ("n", ApprovalAnswer(allow=False)),
        ("No", ApprovalAnswer(allow=False)),
        ("n use the other file", ApprovalAnswer(allow=False, reason="use the other file")),
    ],
)
def test_an_answer_is(typed: str, answer: ApprovalAnswer) -> None:
    assert parse_answer(typed, request("bash", "ls")) == answer


@pytest.mark.parametrize("typed", ["", " ", "yy", "y but only once", "s please", "ok", "4", "\x1b[A", "nope"])
def test_no_answer_is(typed: str) -> None:
    assert parse_answer(typed, request("bash", "ls")) is None


@pytest.mark.parametrize("fill", ["\n" * 60, "\n\u2800" * 60, "\n\u3164" * 60, " " * 6_000, "\n \t" * 60])
def test_nothing_pushes_what_a_command_does_off_the_screen(fill: str) -> None:
    lines = question_text(request("bash", "x", command=f"rm -rf build{fill}\necho done")).splitlines()

    assert any("rm -rf build" in line for line in lines[-20:])
    assert any("echo done" in line for line in lines[-20:])
    assert not any(char in line for line in lines for char in "\u2800\u3164")


def test_all_edits_can_be_allowed_where_an_edit_is_asked_about_and_nowhere_else() -> None:
    edit, command = request("write_file", "write_file a", path="a"), request("bash", "ls", command="ls")

    assert parse_answer("e", edit) == ApprovalAnswer(allow=True, scope="edits")
    assert "[e] all edits" in prompt_of(edit)
    assert parse_answer("e", command) is None
    assert "[e]" not in prompt_of(command)


def test_an_edit_is_shown_as_its_diff_and_not_twice() -> None:
    asked = request("search_replace", "search_replace a.py", file_path="a.py", old_string="one", new_string="two")
    diff = "--- a.py\n+++ a.py\n@@ -1 +1 @@\n-one\n+two"
    lines = question_text(replace(asked, diff=diff)).splitlines()
    assert lines[1:7] == [
        "? edit a.py?",
        "    diff:",
        *(f"    | {line}" for line in diff.splitlines()[:4]),
    ]
    assert not any("old_string" in line for line in lines)
    long = replace(asked, diff="\n".join(f"+{number}" for number in range(1_000)))
    assert "more characters in 940 more lines" in question_text(long)


@pytest.mark.parametrize(
    ("preview", "said"),
    [
        (CommandDisplay(command="make"), ("run", "", "")),
        (DiffDisplay(files=(WrittenFile(path="a\x1b", added=1), WrittenFile(path="b", removed=2))), EDIT),
        (DiffDisplay(files=(WrittenFile(path="a", created=True),)), ("new", "a?", "+0 −0")),  # noqa: RUF001
        (None, ("fetch", "https://example.org?", "")),
    ],
)
def test_a_call_is_told_by_what_happens_and_to_what(preview: Display | None, said: tuple[str, str, str]) -> None:
    asked = request("web_fetch", "web_fetch", prompt="read", url="https://example.org")
    assert head_of(replace(asked, preview=preview)) == said


def test_what_the_head_says_is_not_repeated_below_it() -> None:
    asked = request("read_file", "read_file a", limit=3, path="a", command="x")
    assert shown_arguments(asked) == {"command": "x", "limit": "3"}
    assert "path" in shown_arguments(replace(asked, preview=CommandDisplay(command="x")))


@pytest.mark.parametrize(
    ("covers", "edits", "keys"),
    [(True, True, "ysaen"), (True, False, "ysan"), (False, True, "yen"), (False, False, "yn")],
)
def test_the_answers_are_those_that_would_do_something(covers: bool, edits: bool, keys: str) -> None:  # noqa: FBT001  a table
    assert "".join(each.key for each in possible_answers(covers=covers, edits=edits)) == keys


def test_the_foot_says_where_and_which_rule_asks() -> None:
    asked = request("bash", "ls", command="ls")
    rule = replace(asked, rule="outside", reason="/etc is outside the workspace", confined=True)
    assert foot_of(asked) == [("rule: bash asks", False)]
    assert foot_of(rule) == [
        ("sandbox: writes here only", False),
        ("rule: /etc is outside the workspace", True),
    ]
