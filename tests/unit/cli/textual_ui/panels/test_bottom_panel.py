"""The bottom of the screen: what is shown, which keys count, and that drafts and focus are kept."""

from __future__ import annotations

from tests.unit.cli.textual_ui.panels.stage import request, stage
from tests.unit.cli.textual_ui.panels.test_proposal_panel import proposal
from vibe.cli.textual_ui.panels.request_panels import ApprovalPanel
from vibe.core.tools.ports import ApprovalAnswer


async def test_the_prompt_comes_back_with_its_draft_and_the_focus() -> None:
    async with stage() as on:
        await on.press(*"half a")
        on.app.clock.now += 10
        await on.approve(request())
        assert on.app.prompt.display
        await on.press("tab")
        assert not on.app.prompt.display
        await on.press("1")

        assert on.app.prompt.display
        assert on.app.prompt.text == "half a"
        assert on.app.focused is on.app.prompt
        await on.press("!")
        assert on.app.prompt.text == "half a!"


async def test_no_panel_takes_the_place_of_a_line_that_is_typed_in() -> None:
    async with stage() as on:
        await on.press(*"take ")
        await on.approve(request())
        await on.press("1", "2", "3", "n", "enter")

        assert on.answers == []
        assert on.app.prompt.text == "take 123n\n"
        on.app.clock.now += 10
        await on.until_woken()
        assert on.app.prompt.display
        assert on.app.sign == "? 1 waits for you · Tab"
        assert "Permission" not in on.screen

        on.app.prompt.clear()
        await on.settle()
        assert on.app.sign == "? 1 waits for you"
        await on.press("y")
        assert on.answers == [ApprovalAnswer(allow=True)]


async def test_a_panel_comes_a_second_after_the_last_key() -> None:
    async with stage() as on:
        await on.press("space")
        await on.approve(request())
        on.app.clock.now += 0.9
        await on.until_woken()
        assert on.app.prompt.display
        on.app.clock.now += 0.1
        await on.until(lambda: not on.app.prompt.display)
        await on.press("y")
        assert on.answers == [ApprovalAnswer(allow=True)]


async def test_words_half_typed_in_a_panel_are_not_covered_by_another() -> None:
    async with stage() as on:
        on.app.bottom.show_proposal(proposal())
        await on.settle()
        await on.press("r", *"more tests")
        on.app.clock.now += 10
        await on.approve(request())
        await on.until_woken()
        assert on.app.sign == "? 2 wait for you"
        assert "more tests" in on.screen
        await on.press("escape")
        on.app.clock.now += 1
        await on.until(lambda: "Permission" in on.screen)


async def test_what_was_sent_is_no_typing() -> None:
    async with stage() as on:
        await on.press(*"go")
        on.app.prompt.clear()
        await on.settle()
        await on.approve(request())
        await on.press("1")
        assert on.answers == [ApprovalAnswer(allow=True)]


async def test_a_key_pressed_twice_does_not_answer_the_next_request_too() -> None:
    async with stage() as on:
        await on.approve(request("r1"))
        await on.approve(request("r2"))
        await on.press("1", "1", "1")

        assert len(on.answers) == 1
        assert [each.id for each in on.queue.pending] == ["r2"]
        on.app.clock.now += 1
        await on.press("2")
        assert len(on.answers) == 2


async def test_those_that_wait_are_counted_and_can_be_looked_at() -> None:
    async with stage() as on:
        for number in (1, 2, 3):
            await on.approve(request(f"r{number}", arguments={"command": f"do {number}"}))
        assert "1 of 3 · Tab next" in on.screen
        assert "do 1" in on.screen
        await on.press("tab")
        assert "do 2" in on.screen
        await on.press("shift+tab", "ctrl+b")
        assert "do 3" in on.screen
        assert "3 of 3" in on.screen
        on.app.clock.now += 1
        await on.press("1")
        assert [each.id for each in on.queue.pending] == ["r1", "r2"]
        assert "1 of 2 · Tab next" in on.screen


async def test_words_half_typed_are_there_when_one_comes_back() -> None:
    async with stage() as on:
        await on.approve(request("r1"))
        await on.approve(request("r2"))
        await on.press("n", *"why", "ctrl+n")
        assert "why" not in on.screen
        on.app.clock.now += 1
        await on.press("ctrl+n")
        on.app.clock.now += 1
        await on.settle()
        await on.press(*" so", "enter")
        assert on.answers == [ApprovalAnswer(allow=False, reason="why so")]


async def test_a_request_that_is_cancelled_while_shown_gives_the_prompt_back() -> None:
    async with stage() as on:
        on.app.clock.now += 1
        scope = await on.approve(request())
        assert isinstance(on.app.bottom.shown, ApprovalPanel)
        scope.cancel()
        await on.settle()

        assert on.queue.pending == ()
        assert on.answers == []
        assert on.app.focused is on.app.prompt
        assert not on.app.query(ApprovalPanel)


async def test_one_withdrawn_while_the_person_types_leaves_them_typing() -> None:
    async with stage() as on:
        await on.press("a")
        scope = await on.approve(request())
        scope.cancel()
        await on.settle()
        await on.press("b")
        assert on.app.prompt.text == "ab"
        assert on.app.prompt.display


async def test_a_request_can_be_put_off_and_taken_up_again() -> None:
    async with stage() as on:
        await on.approve(request())
        on.app.bottom.show_input()
        await on.settle()
        await on.press("x")
        assert on.app.prompt.text == "x"
        assert on.app.sign == "? 1 waits for you · Tab"

        on.app.clock.now += 1
        await on.press("ctrl+n", "1")
        assert on.answers == [ApprovalAnswer(allow=True)]
        assert on.app.sign == ""


async def test_the_next_request_is_shown_and_what_was_put_off_waits_until_it_is_looked_at() -> None:
    async with stage() as on:
        for number in (1, 2):
            await on.approve(request(f"r{number}", arguments={"command": f"do {number}"}))
        on.app.bottom.show_input()
        await on.approve(request("r3", arguments={"command": "do 3"}))
        assert "do 3" in on.screen
        on.app.clock.now += 1
        await on.press("1")
        assert on.app.bottom.shown is on.app.prompt
        assert on.app.sign == "? 2 wait for you · Tab"
        await on.press("tab")
        assert "do 1" in on.screen


async def test_the_sign_is_short_on_the_smallest_screen() -> None:
    async with stage(20, 5) as on:
        await on.approve(request())
        on.app.bottom.show_input()
        await on.settle()
        assert on.app.sign == "? 1 · Tab"


async def test_a_plan_that_was_put_off_does_not_come_back_by_itself() -> None:
    async with stage() as on:
        on.app.bottom.show_proposal(proposal())
        await on.settle()
        await on.press("escape")
        assert on.app.sign == "a plan waits for your answer · Tab"
        await on.press("a", "backspace")
        on.app.clock.now += 1
        await on.approve(request())
        await on.press("1")
        assert on.app.bottom.shown is on.app.prompt
        on.app.clock.now += 1
        await on.press("ctrl+n", "a")
        assert on.app.heard == [("run", "")]


async def test_a_panel_takes_no_more_room_than_it_needs_and_at_most_most_of_the_screen() -> None:
    async with stage(80, 24) as on:
        await on.approve(request("r1"))
        assert on.app.bottom.size.height == 4
        assert on.rows[-2].startswith("▌ y yes")
        await on.approve(request("r2", arguments={"command": "x\n" * 300 + "y"}))
        await on.press("ctrl+n")
        assert on.app.bottom.size.height == 19
        assert on.rows[-1].strip()
