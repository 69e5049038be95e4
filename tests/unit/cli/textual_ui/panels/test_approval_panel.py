"""A call that waits for approval, on the screen: its content and its keys."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from ipc.events import DiffDisplay, WrittenFile
from tests.unit.cli.textual_ui.panels.stage import request, stage
from vibe.core.tools.ports import ApprovalAnswer
from vibe.front.request_text import covered


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (("1",), ApprovalAnswer(allow=True)),
        (("2",), ApprovalAnswer(allow=True, scope="session")),
        (("3",), ApprovalAnswer(allow=True, scope="always")),
        (("y",), ApprovalAnswer(allow=True)),
        (("s",), ApprovalAnswer(allow=True, scope="session")),
        (("a",), ApprovalAnswer(allow=True, scope="always")),
        (("n", "enter"), ApprovalAnswer(allow=False)),
        (("n", *"too much", "enter"), ApprovalAnswer(allow=False, reason="too much")),
        (("N", "enter"), ApprovalAnswer(allow=False)),
        (("n", "1", "escape", "1"), ApprovalAnswer(allow=True)),
    ],
)
async def test_each_key_is_an_answer(keys: tuple[str, ...], answer: ApprovalAnswer) -> None:
    async with stage() as on:
        await on.approve(request())
        await on.press(*keys)

        assert on.answers == [answer]
        assert on.app.bottom.shown is on.app.prompt


async def test_the_screen_shows_the_call_the_rule_and_the_reach_of_a_yes() -> None:
    async with stage() as on:
        on.app.steps["r1"] = "clean"
        await on.approve(request(cwd="/work/here", confined=False))

        assert on.lines == [
            "Permission  run  for step clean",
            "  $ rm -rf build",
        ]
        assert "y yes   s this session: rm   a always here   n no…" in on.screen
        assert "no sandbox: can do whatever you can · in /work/here · rule: bash asks" in on.screen
        assert all(line in on.screen for line in on.lines)
        assert on.rows[-4].endswith("1 of 1")


@pytest.mark.parametrize("key", ["enter", "space", "o", "4", "e", "escape"])
async def test_no_other_key_answers(key: str) -> None:
    async with stage() as on:
        await on.approve(request())
        await on.press(key)

        assert on.answers == []
        assert len(on.queue.pending) == 1


@pytest.mark.parametrize("words", ["why", "/yes", "what?", "@a"])
async def test_words_typed_at_it_answer_nothing_until_the_typing_stops(words: str) -> None:
    async with stage() as on:
        await on.approve(request())
        await on.press(*words, "enter", "y")
        assert "keys work once you stop typing" in on.screen
        assert on.answers == []

        on.app.clock.now += 1
        await on.press("y")
        assert on.answers == [ApprovalAnswer(allow=True)]


async def test_arguments_that_a_yes_covers_exactly_are_told_in_words() -> None:
    async with stage() as on:
        await on.approve(request(covers=('bash: {"command": "until x; do y; done", "timeout": null}', "bash: ls")))
        assert "s this session: exactly this call, ls" in on.screen
        on.app.clock.now += 1
        await on.approve(request("r2", covers=("bash: git commit", "bash: git push --force-with-lease origin")))
        await on.press("tab")
        assert on.lines[-1] == "s this session, a always here: git commit, git push --force-with-lease origin"


def test_what_a_yes_covers_is_told_by_its_path_in_the_folder_except_of_commands() -> None:
    here, there = "write_file: write /home/me/shop/a/b.py", "write_file: write /home/me/shop2/c.py"
    shop: dict[str, Any] = {"cwd": "/home/me/shop"}
    edit = request(tool="write_file", covers=(here, there), **shop)
    assert covered(edit) == "write a/b.py, write /home/me/shop2/c.py"
    assert covered(structs.replace(edit, cwd="")) == "write /home/me/shop/a/b.py, write /home/me/shop2/c.py"
    assert covered(request(covers=("bash: rm /home/me/shop/a",), confined=True, **shop)) == "rm /home/me/shop/a"


async def test_escape_puts_it_off() -> None:
    async with stage() as on:
        await on.approve(request())
        assert "Esc later" in on.screen
        await on.press("escape")
        assert on.app.bottom.shown is on.app.prompt
        assert on.app.sign == "? 1 waits for you · Tab"
        assert on.answers == []


async def test_a_lasting_yes_that_covers_nothing_is_not_offered() -> None:
    async with stage() as on:
        await on.approve(request(covers=()))
        await on.press("2", "3")

        assert on.answers == []
        assert "this session" not in on.screen
        assert "can only be allowed once" in on.screen
        await on.press("1")
        assert on.answers == [ApprovalAnswer(allow=True)]


async def test_all_edits_are_offered_for_an_edit() -> None:
    diff = "--- a.py\n+++ a.py\n@@ -1 +1 @@\n-old\n+new\n"
    edit = request(
        tool="write_file",
        arguments={"path": "a.py", "content": "new\n"},
        summary="write_file a.py",
        diff=diff,
        edits=True,
        preview=DiffDisplay(files=(WrittenFile(path="a.py", added=1, removed=1),)),
    )
    async with stage() as on:
        await on.approve(edit)

        assert on.lines == ["Permission  edit a.py?  +1 −1", "    1 - old", "    1 + new"]  # noqa: RUF001  a minus
        assert "e all edits" in on.screen
        assert "rule: edits ask" in on.screen
        await on.press("e")
        assert on.answers == [ApprovalAnswer(allow=True, scope="edits")]


async def test_a_long_command_is_shown_whole_and_the_rule_stays_in_sight() -> None:
    command = "\n".join(f"echo {number}" for number in range(300))
    async with stage() as on:
        await on.approve(request(arguments={"command": command}, summary="echo"))

        assert "rule: bash asks" in on.screen
        assert "command (300 lines):" in on.screen
        assert "echo 299" not in on.screen
        assert "more lines" in on.screen
        await on.press("end")
        assert "echo 299" in on.screen
        assert "PgUp above" in on.screen
        await on.press("home", "down", "pagedown")
        assert "echo 20" in on.screen
        assert on.answers == []


async def test_an_endless_line_is_broken_and_never_cut() -> None:
    async with stage(40, 20) as on:
        await on.approve(request(arguments={"command": "x" * 100 + "END"}))

        shown = "".join(row.removeprefix("▌").strip().removeprefix("$ ") for row in on.rows)
        assert "x" * 100 + "END" in shown


async def test_nothing_in_a_call_reaches_the_screen_raw() -> None:
    evil = "\x1b[2Jls [red]x[/red]\u202etxt.exe\x9b1A\x07" + " " * 60 + "; rm -rf /"
    async with stage(120) as on:
        await on.approve(
            request(tool="[b]bash", arguments={"command": evil}, summary=evil, reason=evil, covers=(evil,))
        )

        assert not [char for row in on.rows for char in row if char < " " or char in "\u202e\x9b\x7f"]
        assert "\\x1b[2Jls [red]x[/red]\\u202etxt.exe\\x9b1A\\x07 [60 blanks] ; rm -rf /" in on.lines[1]
        assert "Permission  [b]bash?" in on.screen


async def test_many_blank_lines_hide_nothing() -> None:
    async with stage() as on:
        await on.approve(request(arguments={"command": "ls" + "\n" * 200 + "rm -rf /"}))

        assert "    [199 blank lines]" in on.screen
        assert "    rm -rf /" in on.screen


@pytest.mark.parametrize("size", [(80, 24), (20, 5)])
async def test_it_can_be_read_and_answered_on_a_small_screen(size: tuple[int, int]) -> None:
    async with stage(*size) as on:
        await on.approve(request())
        seen = on.screen
        for _ in range(12):
            await on.press("down")
            seen += on.screen

        assert "Permission" in seen
        assert "y yes" in on.screen
        assert all(word in seen for word in ("run", "rm -rf build", "rule: bash", "asks", "session"))
        await on.press("1")
        assert on.answers == [ApprovalAnswer(allow=True)]


async def test_a_resize_loses_no_text() -> None:
    async with stage(80, 24) as on:
        await on.approve(request(arguments={"command": "word " * 30 + "END"}))
        await on.pilot.resize_terminal(30, 24)
        await on.settle()
        assert "END" in on.screen
        await on.pilot.resize_terminal(100, 24)
        await on.settle()
        assert "END" in on.screen


async def test_the_text_of_a_new_file_is_a_diff() -> None:
    async with stage(80, 24) as on:
        file = WrittenFile(path="a.py", added=2, created=True)
        new = {"path": "a.py", "content": "a = 1\nb = 2\n"}
        preview = DiffDisplay(files=(file,))
        await on.approve(
            request(tool="write_file", summary="write_file a.py (12 bytes)", arguments=new, preview=preview)
        )
        assert "new a.py?  +2" in on.screen
        assert "    1 + a = 1" in on.screen
        assert "    2 + b = 2" in on.screen
        assert "write_file a.py" not in on.screen


async def test_in_a_low_window_the_command_is_what_is_in_sight() -> None:
    async with stage(20, 5) as on:
        await on.ask(on.queue.approve, request())
        assert all(word in on.screen for word in ("$ rm -rf build", "Permission", "y yes"))
