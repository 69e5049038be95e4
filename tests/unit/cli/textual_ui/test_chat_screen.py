"""The whole chat screen: where keys go, and what is offered."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from anyio import create_task_group, to_thread
from anyio.lowlevel import checkpoint
from msgspec.structs import replace
from textual.events import Key, Paste
from textual.geometry import Region
from textual.message import Message
from textual.pilot import Pilot
from textual.strip import Strip

from ipc import events as e
from tests.unit.cli.textual_ui import scenes
from tests.unit.cli.textual_ui.controllers.test_app_controller import ScriptedChat
from tests.unit.cli.textual_ui.panels.stage import request
from tests.unit.cli.textual_ui.panels.test_proposal_panel import proposal
from tests.unit.cli.textual_ui.scenes import NOW, PROJECT, SEAT, Play, Scene, made_app, played
from vibe.cli.textual_ui.app import PATIENCE, VibeApp
from vibe.cli.textual_ui.chat_screen import BUSY_HINT, HINT, PLAN_HINT
from vibe.cli.textual_ui.input.prompt_area import OneLine, PromptArea
from vibe.cli.textual_ui.input.prompt_input import CompletionPopup
from vibe.cli.textual_ui.log.chat_log import ChatLog
from vibe.cli.textual_ui.log.entry import LogEntry
from vibe.cli.textual_ui.overview.ticker import Ticker, WorkingLine
from vibe.cli.textual_ui.panels.panel_frame import PanelFrame
from vibe.cli.textual_ui.state_store import ScreenPhase
from vibe.core.tools.ports import ApprovalAnswer

STEP = e.StepOutline(id="one", title="Do it", mode="code")


@asynccontextmanager
async def opened(folder: Path) -> AsyncGenerator[tuple[VibeApp, Pilot[None], ScriptedChat]]:
    """Open the screen with a chat that holds one answer."""
    app = await to_thread.run_sync(made_app, "textual-dark", folder)
    chat = ScriptedChat()
    async with app.run_test(size=(80, 24)) as pilot:
        app.chat_screen.opened(chat, "")
        app.chat_screen.log_view.append(LogEntry("answer", "```\nmake\n```"))
        await pilot.pause()
        yield app, pilot, chat


async def test_letters_are_keys_of_the_chat_once_an_entry_is_marked_and_else_words_of_a_prompt(tmp_path: Path) -> None:
    async with opened(tmp_path) as (app, pilot, _):
        screen = app.chat_screen
        for keys in (("tab",), ("tab",), ("ctrl+up", "ctrl+down")):
            app.copy_to_clipboard("")
            await pilot.press(*keys, "b")
            assert (app.clipboard, screen.prompt.text) == ("make", "")
            await pilot.press("x", "b")
            assert screen.prompt.text == "xb"
            screen.prompt.clear()
        for key in ("tab", "escape"):
            await pilot.press("tab", key, *"jump")
            assert (screen.prompt.text, app.clipboard) == ("jump", "make")
            screen.prompt.clear()

        await pilot.click(screen.log_view, offset=(4, 4))
        assert screen.log_view.has_focus
        await pilot.press(*"make")
        assert screen.prompt.text == "make"


async def test_of_a_prompt_that_comes_at_once_while_an_entry_is_marked_no_letter_is_a_key(tmp_path: Path) -> None:
    async with opened(tmp_path) as (app, pilot, _):
        await pilot.press("tab")
        for letter in "second job":
            app.post_message(Key("space" if letter == " " else letter, letter))
        await pilot.pause()
        assert (app.chat_screen.prompt.text, app.clipboard) == ("second job", "")


async def test_a_prompt_and_enter_that_come_at_once_while_the_chat_has_the_keys_are_sent_whole(tmp_path: Path) -> None:
    async with opened(tmp_path) as (app, pilot, chat):
        app.controller.opened(chat, "")
        app.chat_screen.log_view.focus()
        await pilot.pause()
        wanted = "find the question number 4711, with all its answers"
        for letter in wanted:
            app.post_message(Key("space" if letter == " " else letter, letter))
            await checkpoint()  # some keys are still on their way to the chat when the first has reached the line
        app.post_message(Key("enter", "\r"))
        await pilot.pause()
        assert (chat.done, app.chat_screen.prompt.text) == ([("send", wanted)], "")


async def test_what_ctrl_c_copies_is_said_to_be_copied_and_nothing_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    def tell(message: str, **_options: object) -> None:
        told.append(message)

    async with opened(tmp_path) as (app, pilot, chat):
        monkeypatch.setattr(app, "notify", tell)
        assert app.chat_screen.log_view.find("make")
        await pilot.press("ctrl+c")

        assert (app.clipboard, told, chat.done) == ("make", ["copied the selection"], [])


def at_once(app: VibeApp, *keys: str) -> None:
    for key in keys:
        app.post_message(Key("space" if key == " " else key, key if len(key) == 1 else None))


async def test_keys_that_come_at_once_go_where_the_key_before_them_led(tmp_path: Path) -> None:
    async with opened(tmp_path) as (app, pilot, chat):
        app.controller.opened(chat, "")
        call = LogEntry("call", "one\ntwo", title="bash ls", status="ok")
        app.chat_screen.log_view.append(call)
        prompt = app.chat_screen.prompt
        await pilot.pause()
        for keys, typed, is_folded in (
            (("ctrl+up", "enter"), "", False),  # the chat has the keys now
            (("escape", *"back at it"), "back at it", False),
            (("ctrl+c", "ctrl+up", "enter", "enter"), "", False),
            (("enter", "x", "ctrl+up", "enter", "y"), "xy", False),
            ((*"z", "ctrl+c", "tab", "tab", *"tab tab"), "tab tab", False),
        ):
            at_once(app, *keys)
            await pilot.pause()
            assert (prompt.text, call.folded) == (typed, is_folded), keys
        assert {did for did, _ in chat.done} == {"interrupt"}


async def test_letters_that_come_at_once_after_r_are_the_sentence_for_a_proposed_plan_and_no_keys(
    tmp_path: Path,
) -> None:
    answers: list[tuple[str, str]] = []
    async with opened(tmp_path) as (app, pilot, _), create_task_group() as group:

        async def ask() -> None:
            answers.append(await app.chat_screen.ask_about_plan(proposal(), "{}"))

        group.start_soon(ask)
        while not any(panel.is_attached and not panel.asleep for panel in app.screen.query(PanelFrame)):
            await pilot.pause(0.01)
        at_once(app, "r", *"ade", "enter")
        while not answers:
            await pilot.pause(0.01)
    assert answers == [("revise", "ade")]


@pytest.mark.parametrize("enter", ["enter", "ctrl+j"])
async def test_what_is_typed_before_there_is_a_screen_waits_for_it_in_its_order(tmp_path: Path, enter: str) -> None:
    app = await to_thread.run_sync(made_app, "textual-dark", tmp_path)
    at_once(app, *"early words", enter, *"more")
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert [line.text for line in app.store.screen.queued] == ["early words"]
        assert app.chat_screen.prompt.text.strip() == "more"


async def test_ctrl_d_that_comes_at_once_behind_a_letter_does_not_leave(tmp_path: Path) -> None:
    async with opened(tmp_path) as (app, pilot, _):
        at_once(app, "a", "ctrl+d")
        await pilot.pause()
        assert (app.chat_screen.prompt.text, app.store.screen.phase) == ("a", ScreenPhase.READY)


async def test_what_is_pasted_while_the_chat_has_the_keys_comes_into_the_line_in_its_order(tmp_path: Path) -> None:
    async with opened(tmp_path) as (app, pilot, _):
        app.chat_screen.log_view.focus()
        await pilot.pause()
        at_once(app, "a")
        app.post_message(Paste("pasted"))
        at_once(app, "z")
        await pilot.pause()
        assert app.chat_screen.prompt.text == "apastedz"


@pytest.mark.parametrize("play", [scenes.approval, scenes.question, scenes.proposal, scenes.failed])
async def test_what_is_pasted_while_a_panel_is_shown_comes_into_the_line_and_the_panel_waits(
    tmp_path: Path, play: Play
) -> None:
    app = await to_thread.run_sync(made_app, "textual-dark", tmp_path)
    async with played(Scene(play, (100, 30)), app, tmp_path) as stage:
        panel = app.chat_screen.bottom.shown
        assert isinstance(panel, PanelFrame)
        app.post_message(Paste("pasted"))
        at_once(app, "z")
        await stage.pilot.pause()
        assert app.chat_screen.prompt.text == "pastedz"
        assert app.chat_screen.bottom.shown is app.chat_screen.prompt
        app.chat_screen.prompt.clear()
        at_once(app, "tab")
        await stage.pilot.pause()
        assert app.chat_screen.bottom.shown is panel


async def test_what_is_pasted_into_the_words_of_a_panel_stays_there(tmp_path: Path) -> None:
    app = await to_thread.run_sync(made_app, "textual-dark", tmp_path)
    async with played(Scene(scenes.proposal, (100, 30)), app, tmp_path) as stage:
        at_once(app, "r")
        app.post_message(Paste("pasted"))
        await stage.pilot.pause()
        assert app.chat_screen.prompt.text == ""
        assert app.chat_screen.bottom.shown.query_one(OneLine).value == "pasted"


async def test_only_rows_that_change_are_drawn_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(tmp_path) as (app, _, _):
        drawn: list[Region] = []
        draw = ChatLog.render_lines

        def noting(log: ChatLog, crop: Region) -> list[Strip]:
            drawn.append(crop)
            return draw(log, crop)

        monkeypatch.setattr(ChatLog, "render_lines", noting)
        renders = app.chat_screen._compositor._get_renders  # pyright: ignore[reportPrivateUsage]
        list(renders(Region(0, 23, 80, 1)))
        assert drawn == []
        list(renders(Region(5, 2, 10, 1)))
        assert [(crop.y, crop.height) for crop in drawn] == [(2, 1)]


async def test_a_key_that_is_lost_on_its_way_holds_the_next_ones_up_for_a_moment_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as (app, pilot, _):
        monkeypatch.setattr(PromptArea, "post_message", _losing(PromptArea.post_message))
        at_once(app, "left", *"abc")
        await pilot.pause(PATIENCE + 0.2)
        assert app.chat_screen.prompt.text == "abc"


def _losing(post: Callable[[PromptArea, Message], bool]) -> Callable[[PromptArea, Message], bool]:
    return lambda area, message: True if isinstance(message, VibeApp.Passed) else post(area, message)


async def test_the_chat_is_scrolled_from_the_line_and_typing_goes_back_to_its_end(tmp_path: Path) -> None:
    async with opened(tmp_path) as (app, pilot, _):
        log = app.chat_screen.log_view
        log.extend(LogEntry("answer", f"line {number}") for number in range(100))
        await pilot.pause()
        for up in ("pageup", "ctrl+home", "home"):
            await pilot.press(up)
            assert log.scroll_offset.y < log.max_scroll_y
            await pilot.press("x")
            await pilot.pause()
            assert (app.chat_screen.prompt.text, log.scroll_offset.y) == ("x", log.max_scroll_y)
            await pilot.press("backspace")
        for down in ("end", "ctrl+end"):
            await pilot.press("ctrl+home", down)
            assert log.scroll_offset.y == log.max_scroll_y
        await pilot.press("x", "home", "y")
        assert app.chat_screen.prompt.text == "yx"


async def test_commands_that_come_after_the_start_are_offered(tmp_path: Path) -> None:
    async with opened(tmp_path) as (app, pilot, chat):
        chat.about = replace(chat.about, commands=[("pen:review", "PLACE", "Ask for a review.")])
        await pilot.press(*"/rev")
        await pilot.pause()
        assert [candidate.label for candidate in app.screen.query_one(CompletionPopup).candidates] == [
            "/pen:review PLACE"
        ]


@asynccontextmanager
async def started(folder: Path) -> AsyncGenerator[tuple[VibeApp, Pilot[None], ScriptedChat]]:
    """Open the screen with a new conversation, whose choices have been visible for long."""
    app = await to_thread.run_sync(made_app, "textual-dark", folder)
    chat = ScriptedChat()
    async with app.run_test(size=(100, 30)) as pilot:
        app.chat_screen.opened(chat, "")
        app.chat_screen.start.update(replace(SEAT, project=PROJECT))
        while not app.chat_screen.start.was_seen:
            await pilot.pause(0.02)
        yield app, pilot, chat


async def test_enter_on_the_empty_line_resumes_the_plan_that_was_left(tmp_path: Path) -> None:
    async with started(tmp_path) as (app, pilot, chat):
        await pilot.press("enter", "enter")
        await pilot.pause()
        assert chat.done == [("command", "/plan resume 0a1b2c-20270114")]
        assert app.chat_screen.prompt.text == ""


async def test_an_example_comes_into_the_line_and_is_not_sent(tmp_path: Path) -> None:
    async with started(tmp_path) as (app, pilot, chat):
        await pilot.press("down", "down", "up", "down", "enter")
        await pilot.pause()
        assert (app.chat_screen.prompt.text, chat.done) == ("fix the failing tests", [])
        await pilot.press("!", "enter")
        await pilot.pause()
        assert chat.done == [("send", "fix the failing tests!")]


@pytest.mark.parametrize("keys", [("r", "backspace"), ("space", "ctrl+u"), ("/", "backspace")])
async def test_whatever_is_typed_ends_the_choice_and_is_never_lost(tmp_path: Path, keys: tuple[str, ...]) -> None:
    async with started(tmp_path) as (app, pilot, chat):
        await pilot.press(*keys, "enter", "down", "enter", *"run the tests")
        await pilot.pause()
        assert (app.chat_screen.prompt.text, chat.done) == ("run the tests", [])


@pytest.mark.parametrize("way", ["prompt", "queued", "another process"])
async def test_a_conversation_that_begins_with_a_prompt_or_elsewhere_has_no_start_screen(
    tmp_path: Path, way: str
) -> None:
    app = await to_thread.run_sync(made_app, "textual-dark", tmp_path)
    chat = ScriptedChat()
    async with app.run_test(size=(100, 30)) as pilot:
        screen = app.chat_screen
        assert [entry.kind for entry in screen.log_view.entries] == ["drawn"]
        if way == "queued":
            await pilot.press(*"hi", "enter")
        elif way == "another process":
            chat.about = replace(chat.about, session_id="")
        screen.opened(chat, "hi" if way == "prompt" else "")
        await pilot.pause()
        assert (list(screen.log_view.entries), screen.start.is_begun) == ([], False)


@pytest.mark.parametrize(
    "way",
    [(), ("f2", "escape"), ("tab",), ("tab", "ctrl+up"), ("f2", "tab", "f2"), ("ctrl+t",), ("ctrl+p", "escape")],
)
@pytest.mark.parametrize("key", ["1", "n"])
async def test_an_open_request_answers_to_its_keys_from_wherever_the_keys_go(
    tmp_path: Path, way: tuple[str, ...], key: str
) -> None:
    answers: list[ApprovalAnswer] = []
    async with opened(tmp_path) as (app, pilot, _), create_task_group() as group:
        screen = app.chat_screen

        async def ask() -> None:
            answers.append(await screen.requests.approve(request()))

        group.start_soon(ask)
        await pilot.pause()
        await pilot.press(*way, key, *(["enter"] if key == "n" else []))
        await pilot.pause()
        assert [answer.allow for answer in answers] == [key == "1"]
        assert screen.prompt.text == ""
        await pilot.press("a")
        assert screen.prompt.text == "a"


async def test_a_request_says_which_item_of_a_list_it_is_for(tmp_path: Path) -> None:
    async with opened(tmp_path) as (app, pilot, _), create_task_group() as group:
        known: dict[str, Any] = {"plan_id": "plan", "ts": NOW - 14}
        listed, item = replace(STEP, title="Move ${item}"), e.ItemOutline(id="one-790c2794", key="a", title="Move a.py")
        asked = replace(request(), plan_id="plan", subagent_id="agent", subagent_step_id=item.id)
        for event in (
            e.PlanStartedEvent(goal="Move all", steps=(listed,), **known),
            e.PlanUnfoldedEvent(step_id=listed.id, children=(item,), items="0", **known),
            asked,
        ):
            app.store.publish(event)
        app.store.flush()
        group.start_soon(app.chat_screen.requests.approve, asked)
        await pilot.pause()
        (pending,) = app.chat_screen.requests.pending
        assert pending.queue.step_of(pending.id) == "Move a.py"
        assert app.store.view.asking_step(asked.request_id) == item.id
        group.cancel_scope.cancel()


async def test_who_types_a_prompt_goes_on_typing_when_a_request_comes(tmp_path: Path) -> None:
    answers: list[ApprovalAnswer] = []
    async with opened(tmp_path) as (app, pilot, _), create_task_group() as group:
        screen = app.chat_screen

        async def ask() -> None:
            answers.append(await screen.requests.approve(request()))

        await pilot.press(*"take ")
        group.start_soon(ask)
        await pilot.pause()
        await pilot.press("1", "2")
        assert (answers, screen.prompt.text) == ([], "take 12")
        group.cancel_scope.cancel()


async def test_keys_of_the_line_scroll_the_chat(tmp_path: Path) -> None:
    async with opened(tmp_path) as (app, pilot, _):
        log, prompt = app.chat_screen.log_view, app.chat_screen.prompt
        log.extend(LogEntry("user", f"line {number}") for number in range(200))
        await pilot.pause()
        end = log.scroll_offset.y

        await pilot.press("pageup", "pageup", "pagedown")
        assert end - 60 < log.scroll_offset.y < end
        await pilot.press("ctrl+home")
        assert log.scroll_offset.y == 0
        await pilot.press("a", "left", "end", "b", "ctrl+end")
        assert (prompt.text, log.scroll_offset.y) == ("ab", log.max_scroll_y)
        await pilot.press("pageup", "ctrl+u", "end")
        assert (prompt.text, log.scroll_offset.y) == ("", log.max_scroll_y)


@pytest.mark.parametrize("typed", ["👩‍👩‍👧", "🇩🇪", "e\u0301", "👍🏽", "ü"])
async def test_backspace_deletes_what_a_person_sees_as_one_character(tmp_path: Path, typed: str) -> None:
    async with opened(tmp_path) as (app, pilot, _):
        app.screen.query_one(PromptArea).insert(f"a{typed}")
        await pilot.press("backspace")
        assert app.chat_screen.prompt.text == "a"


async def test_no_candidate_is_longer_than_the_line_beside_an_overview(tmp_path: Path) -> None:
    for width in (80, 110, 120, 160, 200):
        (tmp_path / str(width)).mkdir()
        app = await to_thread.run_sync(made_app, "textual-dark", tmp_path / str(width))
        async with app.run_test(size=(width, 24)) as pilot:
            chat = ScriptedChat()
            chat.about = replace(
                chat.about, commands=[(f"c{n}", "GOAL | [status] | show", "for " * 50) for n in range(12)]
            )
            app.chat_screen.opened(chat, "")
            await pilot.press(*"/c")
            await pilot.pause()
            found = app.screen.query_one(CompletionPopup)
            assert found.size.height == 8
            assert found.region.bottom <= app.chat_screen.prompt.region.bottom - 1


OF_CHAT: dict[str, Any] = {"session_id": "chat", "conversation_id": "chat"}
PROMPT = e.PromptStartedEvent(prompt_id="p", **OF_CHAT)
ENDED = e.PromptEndedEvent(prompt_id="p", outcome="completed", **OF_CHAT)


def configured(approvals: str, agent: str = "default") -> e.ConversationConfiguredEvent:
    return e.ConversationConfiguredEvent(agent=agent, model="m", thinking="off", approvals=approvals, **OF_CHAT)


@pytest.mark.parametrize(("height", "spare"), [(15, 0), (16, 1), (36, 1)])
async def test_there_is_an_empty_row_around_the_line_and_before_it_where_there_is_room(
    tmp_path: Path, height: int, spare: int
) -> None:
    app = await to_thread.run_sync(made_app, "vibe-dark", tmp_path)
    async with app.run_test(size=(80, height)) as pilot:
        screen = app.chat_screen
        screen.opened(ScriptedChat(), "")
        await pilot.pause()
        assert screen.prompt.size.height == 1 + 2 * spare
        assert screen.prompt.region.bottom == height - 1, "the status line is below it"
        assert screen.log_view.region.bottom == screen.prompt.region.y - spare
        app.store.publish(PROMPT)
        app.store.flush()
        await pilot.pause()
        line = screen.query_one(WorkingLine)
        assert line.region.height == 1
        assert (line.region.y - screen.log_view.region.bottom, screen.prompt.region.y - line.region.bottom) == (
            spare,
            spare,
        )


async def test_the_line_says_what_enter_does_while_the_agent_works_and_is_red_where_it_asks_nobody(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as (app, pilot, _):
        area, prompt = app.screen.query_one(PromptArea), app.chat_screen.prompt
        plans = configured("ask", "plan")
        for event, hint in ((PROMPT, BUSY_HINT), (ENDED, HINT), (plans, PLAN_HINT)):
            app.store.publish(event)
            app.store.flush()
            await pilot.pause()
            assert str(area.placeholder) == hint
        mark = prompt.query_one("#mark")
        asks = mark.styles.color
        for approvals, is_red in (("all", True), ("ask", False)):
            app.store.publish(configured(approvals))
            app.store.flush()
            await pilot.pause()
            assert (mark.styles.color != asks) is is_red


async def test_a_plan_whose_card_is_out_of_sight_is_in_the_last_line_and_a_click_there_brings_it_back(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as (app, pilot, _):
        screen, ticker = app.chat_screen, app.screen.query_one(Ticker)
        app.store.publish(e.PlanStartedEvent(goal="Do one thing", steps=(STEP,), plan_id="plan", ts=NOW - 14))
        app.store.flush()
        await pilot.pause(0.3)
        assert "steps" not in ticker.render_line(0).text
        screen.log_view.extend(LogEntry("user", f"line {number}") for number in range(60))
        await pilot.pause(0.3)
        assert ticker.render_line(0).text.startswith(" ▸ 0/1 steps · 14 s ")
        await pilot.click(Ticker, offset=(3, 0))
        await pilot.pause(0.3)
        rows = [screen.log_view.render_line(y).text for y in range(4)]
        assert any("Do one thing" in row for row in rows), rows
        assert "steps" not in ticker.render_line(0).text


async def test_ctrl_d_leaves_a_line_that_the_key_before_it_emptied(tmp_path: Path) -> None:
    async with opened(tmp_path) as (app, pilot, _):
        app.chat_screen.prompt.set_text("x")
        await pilot.pause()
        for key in ("backspace", "ctrl+d"):  # at once, as a terminal sends keys typed meanwhile
            app.post_message(Key(key, None))
        await pilot.pause()
        assert not app.chat_screen.prompt.text
        assert app.store.screen.phase is ScreenPhase.LEAVING


@pytest.mark.parametrize(
    ("key", "done", "phase"),
    [
        ("p", [], ScreenPhase.LEAVING),
        ("ctrl+d", [], ScreenPhase.LEAVING),
        ("c", [("command", "/cancel")], ScreenPhase.LEAVING),
        ("escape", [], ScreenPhase.READY),
    ],
)
async def test_who_leaves_while_a_plan_runs_is_asked_what_becomes_of_it(
    tmp_path: Path, key: str, done: list[tuple[str, str]], phase: ScreenPhase
) -> None:
    async with opened(tmp_path) as (app, pilot, chat):
        app.store.publish(e.PlanStartedEvent(goal="Do one thing", steps=(STEP,), plan_id="plan", ts=NOW - 14))
        app.store.flush()
        await pilot.press("ctrl+d")
        await pilot.pause()
        assert app.store.screen.phase is ScreenPhase.READY
        await pilot.press(key)
        await pilot.pause()
        assert chat.done == [*done, *([("leave", "")] if phase is ScreenPhase.LEAVING else [])]
        assert app.store.screen.phase is phase


@pytest.mark.parametrize(("key", "done"), [("r", [("command", "/retry one")]), ("k", [("command", "/skip one")])])
async def test_a_step_that_failed_is_tried_again_or_skipped_by_one_key(
    tmp_path: Path, key: str, done: list[tuple[str, str]]
) -> None:
    async with opened(tmp_path) as (app, pilot, chat):
        known: dict[str, Any] = {"plan_id": "plan", "ts": NOW - 14}
        app.store.publish(e.PlanStartedEvent(goal="Do one thing", steps=(STEP,), **known))
        for before, after in (("pending", "in_progress"), ("in_progress", "failed")):
            app.store.publish(
                e.PlanStepUpdateEvent(step_id="one", title="Do it", previous=before, status=after, **known)
            )
        app.store.flush()
        await pilot.pause()
        await pilot.press(key)
        await pilot.pause()
        assert chat.done == done
        await pilot.press("x")
        assert app.chat_screen.prompt.text == "x"
