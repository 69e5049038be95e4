"""The screen on a real terminal, by the markers that programs which drive it can rely on.

Covers ``vibe.cli.textual_ui``.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from tests.e2e.conftest import VIBE, VibeCommand, command_step, leftovers
from tests.e2e.test_plain_chat import bash, hand_in, turns
from tests.fakes.model_server import ModelServer, Reply
from tests.fakes.tmux import Tmux
from tests.fakes.waiting import until, written
from tests.unit.core.skills.writing import write_skill

WINDOW = (120, 36)


def test_a_prompt_is_answered_and_a_call_allowed(vibe: VibeCommand, tmux: Tmux) -> None:
    vibe.replay(turns({"text": "Hello **there**."}, bash("touch made.txt"), {"text": "It is made."}))
    vibe.at(tmux, "hi")
    tmux.wait_for("Hello there.")
    tmux.type("make a file")
    tmux.wait_for("Permission")
    tmux.wait_for("touch made.txt")
    tmux.wait_for("y yes")  # it appears only once the person seems to have stopped typing
    tmux.press("1")
    tmux.wait_for("It is made.")
    tmux.press("C-d")
    tmux.wait_for("vibe -c goes on")
    tmux.wait_for("EXIT 0")

    assert (vibe.workdir / "made.txt").exists()
    assert leftovers(vibe.workdir) == []


def test_an_answer_that_someone_gives_elsewhere_is_said(vibe: VibeCommand, tmux: Tmux) -> None:
    vibe.replay(turns(bash("touch made.txt"), {"text": "It is made."}))
    vibe.at(tmux, "make a file")
    tmux.wait_for("y yes")
    [request] = vibe("events", "answer", "latest", "--output", "json").document["requests"]
    assert vibe("events", "answer", "latest", request["request_id"], "yes", "--by", "ana").code == 0
    tmux.wait_for("It is made.")
    tmux.wait_for("allowed by ana")
    tmux.press("C-d")
    tmux.wait_for("EXIT 0")


def test_what_is_typed_before_the_first_frame_is_sent(vibe: VibeCommand, tmux: Tmux) -> None:
    vibe.replay(turns({"text": "You said it early."}))
    vibe.at(tmux)
    tmux.type("early words")
    tmux.wait_for("You said it early.")
    tmux.press("C-d")
    tmux.wait_for("EXIT 0")


def test_five_megabytes_are_pasted_and_given_back_as_they_do_not_fit(vibe: VibeCommand, tmux: Tmux) -> None:
    vibe.replay(turns({"text": "Hello."}))
    vibe.at(tmux, "hi")
    tmux.wait_for("Hello.")
    tmux.paste(("é" * 49 + "\x1b[31m\n") * 50_000)
    tmux.wait_for("[pasted 1: 50,000 lines]")
    tmux.press("Enter")
    tmux.wait_for("the prompt does not fit")
    tmux.wait_for("> [pasted 2: 50,")
    tmux.press("BSpace")
    tmux.press("C-d")
    tmux.wait_for("EXIT 0")


def test_what_keyboards_type_beside_letters_is_text_too(vibe: VibeCommand, server: ModelServer, tmux: Tmux) -> None:
    server.enqueue(Reply(text="I see."))
    typed = "全角\u3000空白 à\xa0propos می\u200cشود 👩\u200d👩\u200d👧"
    vibe.at(tmux)
    tmux.wait_for("Ask anything")
    tmux.type(typed)
    tmux.wait_for("I see.")
    assert server.requests[0].body["messages"][-1]["content"] == typed
    tmux.press("C-d")
    tmux.wait_for("EXIT 0")


def test_a_turn_that_a_limit_ended_says_so(vibe: VibeCommand, tmux: Tmux) -> None:
    vibe.replay(turns(bash("echo once"), {"text": "Never said."}))
    vibe.at(tmux, "--auto-approve", "--max-turns", "1", "go")
    tmux.wait_for("! the limit of 1 turn is reached")
    tmux.press("C-d")
    tmux.wait_for("EXIT 0")


def test_a_paste_without_an_end_loses_neither_its_text_nor_the_keys_after_it(vibe: VibeCommand, tmux: Tmux) -> None:
    vibe.replay(turns({"text": "Hello."}, {"text": "I see."}))
    vibe.at(tmux, "hi")
    tmux.wait_for("Hello.")
    tmux.paste("\x1b[200~half of it", brackets=False)
    tmux.wait_for("> half of it")
    tmux.type(", and more")
    tmux.wait_for("I see.")
    assert any("half of it, and more" in line for line in tmux.screen())
    tmux.press("C-d")
    tmux.wait_for("EXIT 0")


def test_who_is_asked_nothing_is_told_so_from_the_start(vibe: VibeCommand, tmux: Tmux) -> None:
    vibe.replay(turns({"text": "Hello."}))
    vibe.at(tmux, "--auto-approve")
    until(lambda: tmux.screen()[-1].strip().startswith("AUTO-APPROVES EVERYTHING"))
    tmux.press("C-d")
    tmux.wait_for("EXIT 0")


def test_escape_stops_the_agent_and_the_session_goes_on(vibe: VibeCommand, tmux: Tmux) -> None:
    vibe.replay(turns(bash("sleep 6331"), {"text": "Stopped, as you wish."}))
    vibe.at(tmux, "--auto-approve", "wait")
    tmux.wait_for("sleep 6331")
    tmux.press("Escape")
    tmux.wait_for("stopped")
    tmux.type("well?")
    tmux.wait_for("Stopped, as you wish.")
    tmux.type("/clare")
    tmux.wait_for("unknown command '/clare': did you mean '/clear'?")
    tmux.wait_for("> /clare")  # the line is kept, to be changed or typed over
    tmux.type("/other", enter=False)
    tmux.wait_for("> /other")
    tmux.press("C-c", "C-d")
    tmux.wait_for("EXIT 0")

    assert leftovers(vibe.workdir) == []


def test_what_waits_for_the_agent_is_listed_taken_back_and_sent_in_turn(vibe: VibeCommand, tmux: Tmux) -> None:
    vibe.replay(turns(bash("until test -e gate; do sleep 0.1; done"), {"text": "Open."}, {"text": "First done."}))
    vibe.at(tmux, "--auto-approve", "wait")
    tmux.wait_for("until test -e gate")
    tmux.type("do this first")
    tmux.wait_for("1. do this first")
    tmux.type("and that second")
    tmux.wait_for("2. and that second")
    tmux.press("M-Up")
    tmux.wait_for("> and that second")
    until(lambda: not any("2. and that second" in line for line in tmux.screen()))
    tmux.press("C-c")  # stops the agent: waiting input goes back into the line, before its text
    tmux.wait_for("> do this first")
    tmux.wait_for("  and that second")
    tmux.press("Enter")
    tmux.wait_for("Open.")
    until(lambda: not any("waiting:" in line for line in tmux.screen()))
    tmux.press("C-c", "C-d")
    tmux.wait_for("EXIT 0")


def test_a_long_session_opens_with_its_newest_messages_older_ones_come_and_words_are_found(
    vibe: VibeCommand, tmux: Tmux
) -> None:
    vibe.replay(turns({"text": "Hello."}))
    session_id = vibe("--output", "json", "-p", "hi").document["session_id"]
    transcript = vibe.home / "logs" / "session" / session_id / "messages.jsonl"
    said = [json.dumps({"role": "user", "content": f"question {number}\n{'more ' * 300}"}) for number in range(10_000)]
    transcript.write_text("\n".join([*said, *transcript.read_text().splitlines()]) + "\n")
    vibe.replay(turns({"text": "Hello."}))
    vibe.at(tmux, "-c")
    tmux.wait_for("Hello.")
    tmux.wait_for("question 9999")
    assert not any("question 9000" in line for line in tmux.screen())
    tmux.click("Hello.")
    for _ in range(3):
        before = tmux.screen()
        tmux.press("Home")
        until(lambda before=before: tmux.screen() != before)
    tmux.wait_for("question 94")
    tmux.type("/find QUESTION 9990", enter=False)
    tmux.wait_for("> /find QUESTION 9990")
    tmux.press("Enter")
    tmux.wait_for("question 9990")
    tmux.type("/find question 4711")
    tmux.wait_for("> question 4711")
    tmux.type("/find no such words")
    tmux.wait_for("not found in this conversation")
    tmux.press("C-c", "C-d")
    tmux.wait_for("EXIT 0")


def test_another_session_is_picked_or_none(vibe: VibeCommand, tmux: Tmux) -> None:
    vibe.replay(turns({"text": "Hello."}, {"text": "Welcome back."}))
    vibe("-p", "an old question")
    vibe.at(tmux, "a new question")
    tmux.wait_for("Hello.")

    tmux.type("/resume")
    tmux.wait_for("> an old question")
    tmux.wait_for("▸ an old question")
    assert not any("▸ a new question" in line for line in tmux.screen())
    tmux.press("Escape")
    until(lambda: not any("Esc back" in line for line in tmux.screen()))
    tmux.wait_for("> a new question")
    tmux.type("/resume")
    tmux.wait_for("▸ an old question")
    tmux.press("Enter")
    until(lambda: not any("Esc back" in line for line in tmux.screen()))
    tmux.wait_for("> an old question")
    assert not any("a new question" in line for line in tmux.screen())
    tmux.type("go on")
    tmux.wait_for("Welcome back.")
    tmux.press("C-d")
    tmux.wait_for("saved · vibe -c goes on")
    tmux.wait_for("EXIT 0")


def test_a_few_keys_go_back_to_before_a_prompt_and_look_at_a_theme(vibe: VibeCommand, tmux: Tmux) -> None:
    vibe.replay(turns(bash("echo new > made.txt"), {"text": "It is made."}))
    vibe.at(tmux, "--auto-approve", "make it")
    tmux.wait_for("It is made.")
    tmux.wait_for("commands changed 1 file +1 −0 · /review /diff /undo")  # noqa: RUF001  a minus
    until(lambda: not any("Esc stops" in line for line in tmux.screen()))
    tmux.type("/diff")
    tmux.wait_for("diff 1 file")
    tmux.wait_for("+ new")
    tmux.press("Escape", "Escape")
    tmux.wait_for("made.txt  deleted (new since then)")
    tmux.press("Enter")
    tmux.wait_for('back to before "make it" · 1 file restored')
    assert not (vibe.workdir / "made.txt").exists()
    tmux.wait_for("> make it")

    tmux.press("C-u")
    tmux.type("/theme")
    tmux.wait_for("▸ follow the terminal")
    tmux.press("Down")
    tmux.wait_for("▸ vibe-dark")
    tmux.press("Enter")
    until(lambda: 'theme = "vibe-dark"' in (vibe.home / "config.toml").read_text())
    tmux.press("C-d")
    tmux.wait_for("EXIT 0")


def test_a_terminal_that_is_closed_leaves_a_saved_session_and_no_process(vibe: VibeCommand, tmux: Tmux) -> None:
    vibe.replay(turns(bash("sleep 6332"), {"text": "Back again."}))
    vibe.at(tmux, "--auto-approve", "wait")
    tmux.wait_for("sleep 6332")
    tmux.close()
    until(lambda: leftovers(vibe.workdir) == [])

    assert vibe("session", "list", "--output", "json").document[0]["outcome"] == "interrupted"
    assert vibe("-c", "-p", "go on").out == "Back again.\n"


def test_a_terminal_that_draws_nothing_gets_lines(vibe: VibeCommand, tmux: Tmux) -> None:
    vibe.replay(turns({"text": "By lines."}))
    tmux.start(["env", "TERM=dumb", VIBE, "hi"], cwd=vibe.workdir, env=vibe.variables())
    tmux.wait_for("chatting line by line")
    tmux.wait_for("By lines.")
    tmux.press("C-d")
    tmux.wait_for("EXIT 0")


def test_the_smallest_screen_shows_what_runs_and_each_answer_to_a_permission(vibe: VibeCommand, tmp_path: Path) -> None:
    vibe.replay(turns(bash("rm -rf build"), {"text": "Gone."}))
    with Tmux(tmp_path, columns=20, rows=5) as tmux:
        vibe.at(tmux, "hi")
        tmux.wait_for("a always n no")
        tmux.wait_for("y yes s session")
        tmux.press("n", "Enter")
        tmux.wait_for("Gone.")
        tmux.press("C-d")
        tmux.wait_for("EXIT 0")


def test_what_is_wrong_with_the_start_is_a_sentence_on_the_restored_terminal(vibe: VibeCommand, tmux: Tmux) -> None:
    vibe.replay(turns())
    vibe.at(tmux, "--agent", "nobody")
    tmux.wait_for("nobody")
    tmux.wait_for("EXIT 2")

    assert any(line.startswith("vibe: ") for line in tmux.screen())


def test_without_a_key_setting_up_may_be_skipped_and_a_prompt_is_given_back(vibe: VibeCommand, tmux: Tmux) -> None:
    vibe.at(tmux)
    tmux.wait_for("Welcome to vibe.")
    tmux.press("Escape")
    tmux.wait_for("no API key for provider 'mistral'")
    tmux.type("are you there?")
    tmux.wait_for("Welcome to vibe.")  # what is to be done now
    tmux.press("Escape")
    tmux.wait_for("✗ no API key")
    tmux.wait_for("> are you there?")
    tmux.press("C-u")
    tmux.type("/setup")
    tmux.wait_for("Welcome to vibe.")
    tmux.press("Escape")
    until(lambda: any(line.startswith(" >") for line in tmux.screen()))
    tmux.press("C-d")
    tmux.wait_for("EXIT 0")


def test_setting_up_is_had_again_before_a_conversation_and_within_one(vibe: VibeCommand, tmux: Tmux) -> None:
    vibe.replay(turns({"text": "Hello."}))
    vibe.at(tmux, "--setup", "hi")
    tmux.wait_for("Welcome to vibe.")
    tmux.press("Escape")
    tmux.wait_for("Hello.")
    tmux.type("/setup")
    tmux.wait_for("Welcome to vibe.")
    tmux.press("Enter")
    tmux.wait_for("Choose a provider")
    tmux.press("Escape")
    until(lambda: any(line.startswith(" >") for line in tmux.screen()))
    tmux.press("C-d")
    tmux.wait_for("EXIT 0")


def test_wrong_settings_are_said_and_waited_for_and_early_prompts_are_kept(vibe: VibeCommand, tmux: Tmux) -> None:
    vibe.replay(turns({"text": "Hello after all."}))
    settings = vibe.home / "config.toml"
    good = settings.read_text()
    settings.write_text(good + "\n[tools.bash\n")
    vibe.at(tmux)
    tmux.wait_for("vibe continues once this is corrected and saved")
    tmux.type("are you there?")
    tmux.wait_for("are you there?")
    settings.write_text(good.replace("[[models]]", '[tools.bash]\npermission = "sometimes"\n[[models]]', 1))
    tmux.wait_for("sometimes")
    settings.write_text(good)
    tmux.wait_for("Hello after all.")
    tmux.press("C-d")
    tmux.wait_for("EXIT 0")


def test_wrong_settings_can_be_left(vibe: VibeCommand, tmux: Tmux) -> None:
    vibe.configure("[[[\n")
    vibe.at(tmux)
    tmux.wait_for("Ctrl+D quits")
    tmux.press("C-d")
    tmux.wait_for("EXIT 0")


def test_a_click_opens_a_web_page_and_nothing_else(vibe: VibeCommand, tmux: Tmux, tmp_path: Path) -> None:
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {opened}\n')
    browser.chmod(0o700)
    vibe.environ["BROWSER"] = f"{browser} %s"
    vibe.replay(turns({"text": "See [the page](https://example.org/page) and [a file](notes.txt)."}))
    vibe.at(tmux, "hi")
    tmux.wait_for("the page")
    tmux.wait_for(" s · ")  # the lines below move it up
    tmux.click("a file")
    tmux.wait_for("not opened")
    tmux.click("the page")
    until(lambda: written(opened))
    tmux.press("C-d")
    tmux.wait_for("EXIT 0")

    assert opened.read_text() == "https://example.org/page\n"


BREAK = """import os
from {module} import {owner}
def broken(*_: object, **__: object) -> object:
    if os.path.exists("{sign}"):
        raise RuntimeError("broken on purpose")
    return whole(*_, **__)
whole = {owner}.{name}
{owner}.{name} = broken
"""


@pytest.mark.parametrize(
    ("module", "owner", "name"),
    [
        ("vibe.cli.textual_ui.overview.ticker", "Ticker", "render"),
        ("vibe.cli.textual_ui.presenters.chat_presenter", "ChatPresenter", "present"),
        ("vibe.cli.textual_ui.local_chat", "LocalChat", "_send"),
    ],
    ids=["a widget", "a presenter", "a task"],
)
def test_a_screen_that_breaks_saves_the_session_and_restores_the_terminal(
    vibe: VibeCommand, tmux: Tmux, tmp_path: Path, module: str, owner: str, name: str
) -> None:
    sign = tmp_path / "break"
    (tmp_path / "sitecustomize.py").write_text(BREAK.format(module=module, owner=owner, name=name, sign=sign))
    vibe.environ["PYTHONPATH"] = str(tmp_path)
    vibe.replay(turns({"text": "Said before."}, {"text": "Said after."}, {"text": "Said at last."}))
    vibe.at(tmux, "hi")
    tmux.wait_for("Said before.")
    sign.touch()
    tmux.type("more")
    tmux.wait_for("vibe -c goes on")
    tmux.wait_for("EXIT 1")

    sign.unlink()
    assert any("internal error (RuntimeError: broken on purpose)" in line for line in tmux.screen())
    assert tmux.is_plain
    del vibe.environ["PYTHONPATH"]
    assert vibe("-c", "-p", "go on").code == 0


def test_a_screen_that_breaks_in_a_worker_pauses_the_plan_and_leaves_no_process(
    vibe: VibeCommand, tmux: Tmux, tmp_path: Path
) -> None:
    sign = tmp_path / "break"
    sign.touch()
    picker = "vibe.cli.textual_ui.screens.picker_screen"
    code = BREAK.format(module=picker, owner="PickerScreen", name="_read", sign=sign)
    (tmp_path / "sitecustomize.py").write_text(code)
    vibe.environ["PYTHONPATH"] = str(tmp_path)
    vibe.replay(turns())
    plan = {"version": 1, "goal": "Wait", "steps": [command_step("wait", "sleep 6333")]}
    (vibe.workdir / "plan.json").write_text(json.dumps(plan))
    vibe.at(tmux)
    tmux.type("/plan load plan.json")
    tmux.wait_for("a accept and run")
    tmux.press("a")
    tmux.wait_for("0/1 · ")
    tmux.type("/theme")
    tmux.wait_for("internal error (RuntimeError: broken on purpose)")
    tmux.wait_for("paused at 0/1 · start vibe to go on")
    tmux.wait_for("EXIT 1")

    assert tmux.is_plain
    assert leftovers(vibe.workdir) == []
    del vibe.environ["PYTHONPATH"]
    assert vibe("plan", "status", "latest", "--output", "json").document["status"] == "paused"


PREPARE = command_step("prepare", "echo ready > prepared.txt", title="Prepare the ground")
WAIT = command_step("wait", "until test -e gate; do sleep 0.1; done", title="Wait for the gate")
BUILD = command_step("build", "cp prepared.txt built.txt", title="Build it", depends_on=["prepare", "wait"])
CHECK = command_step("check", "test -s built.txt", title="Check it", depends_on=["build"])


def test_a_plan_that_could_not_be_written_is_tried_again_by_a_key(
    vibe: VibeCommand, server: ModelServer, tmux: Tmux
) -> None:
    server.enqueue(hand_in(), hand_in(), hand_in(), hand_in(BUILD))
    vibe.at(tmux)
    tmux.type("/plan Build the thing")
    tmux.wait_for("✗ no plan: ")
    tmux.wait_for("r try again · o open")
    tmux.press("Tab")
    tmux.wait_for("j k mark")
    tmux.press("o")
    until(lambda: not any("j k mark" in line for line in tmux.screen()))
    tmux.press("Escape")
    tmux.wait_for("j k mark")
    tmux.press("r")
    tmux.wait_for("Proposed plan")
    tmux.wait_for("✓ Planned")


def test_words_that_the_agent_at_work_cannot_be_told_are_queued_and_that_is_said(vibe: VibeCommand, tmux: Tmux) -> None:
    vibe.replay(turns({"text": "Hello."}))
    vibe.at(tmux)
    tmux.type("!until test -e gate; do sleep 0.1; done")
    tmux.wait_for("Esc stops")
    tmux.type("say hello", enter=False)
    tmux.press("C-s")
    tmux.wait_for("queued, as the agent can't be told it now: say hello")
    (vibe.workdir / "gate").touch()
    tmux.wait_for("Hello.")
    tmux.press("C-d")
    tmux.wait_for("EXIT 0")


def test_what_is_too_long_for_the_planner_comes_back_and_is_no_prompt(
    vibe: VibeCommand, server: ModelServer, tmux: Tmux
) -> None:
    server.enqueue(Reply(silent_after=0))
    vibe.at(tmux)
    tmux.type("/plan Build something")
    tmux.wait_for("planning · waiting for ")
    tmux.paste("mind all of these\n" * 100_000)
    tmux.wait_for("[pasted 1: 100,000 lines]")
    tmux.press("C-s")
    tmux.wait_for("not sent: it is too long for the planner")
    tmux.wait_for("> [pasted 2: 100,000 lines]")
    tmux.press("C-c")
    tmux.wait_for("stopped planning")
    tmux.press("C-c", "C-d")
    tmux.wait_for("EXIT 0")

    assert len(server.requests) == 1


def test_a_plan_is_proposed_changed_by_a_sentence_and_run(vibe: VibeCommand, server: ModelServer, tmux: Tmux) -> None:
    server.enqueue(
        Reply(silent_after=0),
        hand_in(PREPARE, WAIT, BUILD),
        hand_in(PREPARE, WAIT, BUILD, CHECK),
        Reply(text="All is built."),
    )
    vibe.at(tmux)
    tmux.type("/plan Build something")
    tmux.wait_for("planning · waiting for ")
    tmux.wait_for("▸ Planning  reads, changes nothing")
    tmux.type("mind the tests", enter=False)
    tmux.press("C-s")
    tmux.wait_for("before the next step: mind the tests")
    tmux.press("Escape")
    tmux.wait_for("stopped planning")
    tmux.type("/plan Build the thing")
    tmux.wait_for("Proposed plan")
    tmux.press("Escape")
    tmux.wait_for("a plan waits for your answer · Tab")
    tmux.press("Tab")
    tmux.wait_for("r revise by a sentence")
    tmux.press("r")
    tmux.wait_for("Enter send")
    tmux.type("check it, too")
    tmux.wait_for("Check it")
    tmux.wait_for("a accept and run")
    tmux.press("a")
    tmux.wait_for("1/4 · ")
    tmux.press("F2")
    tmux.wait_for("1 at work")
    tmux.press("Enter")
    tmux.wait_for("←→ agent")
    tmux.press("Escape")
    tmux.wait_for("Agents")
    tmux.press("Escape")
    until(lambda: any(line.startswith(" >") for line in tmux.screen()))
    tmux.type("!touch gate")
    tmux.wait_for("Plan completed")
    tmux.type("and now?")
    tmux.wait_for("All is built.")
    tmux.press("C-d")
    tmux.wait_for("EXIT 0")

    assert (vibe.workdir / "built.txt").read_text() == "ready\n"
    status = json.loads(vibe("plan", "status", "latest", "--output", "json").out)
    assert status["status"] == "completed"


def vibe_of(tmux: Tmux, workdir: Path) -> int:
    """Return the process of the command in a window whose shell works in ``workdir``."""
    found: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            is_ours = str(VIBE) in (process / "cmdline").read_text(errors="replace").split("\0")
            if is_ours and (process / "cwd").readlink() == workdir:
                found.append(int(process.name))
    assert len(found) == 1, tmux.screen()
    return found[0]


def answered(tmux: Tmux, words: str, answer: str) -> bool:
    """Type words and send them unless they are on the screen, and return whether the answer is shown."""
    shown = "\n".join(tmux.screen())
    if answer not in shown:
        tmux.type("" if words in shown else words)
    return answer in shown


@pytest.mark.parametrize("seed", range(3))
def test_signals_that_stop_and_continue_it_in_any_order_leave_a_screen_that_works(
    vibe: VibeCommand, tmux: Tmux, seed: int
) -> None:
    vibe.replay(turns({"text": "Hello."}, {"text": "Still here."}))
    vibe.at(tmux, "hi")
    tmux.wait_for("Hello.")
    pid, chance = vibe_of(tmux, vibe.workdir), Random(seed)
    which = [signal.SIGSTOP, signal.SIGCONT, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGWINCH]
    for _ in range(20):
        os.kill(pid, chance.choice([*which, signal.SIGUSR1]))
        time.sleep(chance.choice([0, 0.001, 0.05, 0.15]))
    os.kill(pid, signal.SIGCONT)
    tmux.wait_for("Ask anything ·")
    until(lambda: answered(tmux, "well?", "Still here."))  # keys typed during a redraw may be lost
    os.kill(pid, signal.SIGTERM)
    os.kill(pid, signal.SIGCONT)  # as `timeout` does
    tmux.wait_for("EXIT 143")

    assert tmux.is_plain


@pytest.mark.parametrize("which", [signal.SIGTSTP, signal.SIGSTOP])
def test_a_screen_that_was_stopped_is_drawn_again_in_the_foreground(
    vibe: VibeCommand, tmux: Tmux, which: signal.Signals
) -> None:
    vibe.replay(turns({"text": "Hello."}, {"text": "Still here."}))
    shell = ["bash", "--norc", "--noprofile", "-i"]
    tmux.start(shell, cwd=vibe.workdir, env=vibe.variables())
    tmux.type(f"{VIBE} hi")
    tmux.wait_for("Hello.")
    os.kill(vibe_of(tmux, vibe.workdir), which)
    tmux.wait_for("Stopped")
    tmux.type("bg")
    tmux.type("clear; fg")
    until(lambda: not any("Stopped" in line for line in tmux.screen()))  # until then the shell reads the keys
    tmux.wait_for("Hello.")
    tmux.wait_for("Ask anything ·")
    tmux.type("well?")
    tmux.wait_for("Still here.")
    tmux.press("C-d")
    tmux.wait_for("vibe -c goes on")


def test_a_screen_is_drawn_where_the_person_is_though_errors_go_to_a_file(vibe: VibeCommand, tmux: Tmux) -> None:
    vibe.replay(turns({"text": "Hello."}))
    tmux.start(["sh", "-c", f"{VIBE} hi 2> errors"], cwd=vibe.workdir, env=vibe.variables())
    tmux.wait_for("Hello.")
    tmux.press("C-d")
    tmux.wait_for("EXIT 0")

    assert (vibe.workdir / "errors").read_text() == ""


@pytest.mark.parametrize("editor", ["", "false", "/no/such/editor", "sh -c 'exit 1'", "'", "rm"])
def test_an_editor_that_fails_leaves_the_screen_and_the_draft(vibe: VibeCommand, tmux: Tmux, editor: str) -> None:
    vibe.replay(turns({"text": "Hello."}, {"text": "Again."}))
    vibe.environ |= {"EDITOR": editor, "VISUAL": ""}
    vibe.at(tmux, "hi")
    tmux.wait_for("Hello.")
    tmux.paste("a draft", brackets=False)
    tmux.press("C-g")
    said = {"": "no editor: set EDITOR", "rm": "the editor's file is lost, nothing was changed"}
    tmux.wait_for(said.get(editor, "the editor "))
    tmux.wait_for("> a draft")
    tmux.press("Enter")
    tmux.wait_for("Again.")
    tmux.press("C-d")
    tmux.wait_for("EXIT 0")


def test_ctrl_z_leaves_the_terminal_to_the_shell_and_fg_comes_back(vibe: VibeCommand, tmux: Tmux) -> None:
    vibe.replay(turns({"text": "Hello."}, {"text": "Again."}))
    tmux.start(["bash", "--norc", "--noprofile", "-i"], cwd=vibe.workdir, env=vibe.variables())
    tmux.type(f"{VIBE} hi")
    tmux.wait_for("Hello.")
    tmux.paste("a draft", brackets=False)
    tmux.press("C-z")
    tmux.wait_for("Stopped")
    tmux.type("fg")
    tmux.wait_for("> a draft")
    tmux.press("Enter")
    tmux.wait_for("Again.")
    tmux.press("C-d")
    tmux.wait_for("vibe -c goes on")


def test_a_project_is_trusted_once_and_warnings_of_the_start_are_seen(vibe: VibeCommand, tmux: Tmux) -> None:
    vibe.replay(turns({"text": "Hello."}))
    (vibe.workdir / "AGENTS.md").write_text("Say moo.\n")
    vibe.at(tmux)
    tmux.wait_for("This project brings ")
    tmux.wait_for("1-3 answer")  # it appears only once the person seems to have stopped typing
    tmux.press("2")
    tmux.wait_for("AGENTS.md was not loaded")
    tmux.press("C-d")
    tmux.wait_for("EXIT 0")
    assert str(vibe.workdir) in vibe("trust", "list").out.partition("untrusted")[2]


def test_a_project_that_was_trusted_is_asked_about_no_more(vibe: VibeCommand, tmux: Tmux) -> None:
    vibe.replay(turns({"text": "Hello."}))
    (vibe.workdir / ".vibe").mkdir()
    (vibe.workdir / ".vibe" / "config.toml").write_text("")
    (vibe.workdir / "AGENTS.md").write_text("Say moo.\n")  # one question for both
    vibe.at(tmux)
    tmux.wait_for("This project brings ")
    tmux.wait_for("1-3 answer")
    tmux.press("1")
    tmux.wait_for("several agents, side by side")
    tmux.press("C-d")
    tmux.wait_for("EXIT 0")
    with Tmux(vibe.home, columns=120, rows=36) as again:
        vibe.at(again, "hi")
        again.wait_for("Hello.")
        assert not any("was not loaded" in line for line in again.screen())


def run_plan(tmux: Tmux, plan: str) -> None:
    tmux.wait_for("several agents, side by side")
    tmux.type(f"/plan load {plan}")
    tmux.wait_for("a accept and run")
    tmux.press("a")


def test_a_step_that_failed_is_tried_again_by_one_command_of_the_chat(
    vibe: VibeCommand, tmux: Tmux, write_plan: Callable[..., str]
) -> None:
    steps = (command_step("build", "test -e gate"), command_step("after", "touch after.txt", depends_on=["build"]))
    vibe.replay(turns())
    vibe.at(tmux)
    run_plan(tmux, write_plan(*steps))
    tmux.wait_for("Failed  build")
    tmux.wait_for("blocks after")
    (vibe.workdir / "gate").touch()
    tmux.press("r")
    tmux.wait_for("Plan completed")
    assert (vibe.workdir / "after.txt").exists()
    tmux.type("/retry")
    tmux.wait_for("no step has failed")
    tmux.press("C-c")
    tmux.press("C-d")
    tmux.wait_for("EXIT 0")


def test_who_leaves_a_plan_that_runs_is_told_then_and_when_they_come_back(
    vibe: VibeCommand, tmux: Tmux, write_plan: Callable[..., str]
) -> None:
    vibe.replay(turns({"text": "Hello."}))
    vibe.at(tmux)
    run_plan(tmux, write_plan(command_step("one", "sleep 1"), command_step("two", "sleep 60", depends_on=["one"])))
    tmux.wait_for("1/2 · ")
    tmux.type("hi")
    tmux.wait_for("Hello.")
    tmux.wait_for("1/2 · ")
    tmux.press("C-d")
    tmux.wait_for("Leave?")
    tmux.press("p")
    tmux.wait_for("EXIT 0")
    tmux.wait_for("paused at 1/2 · vibe -c goes on")
    with Tmux(vibe.home, columns=120, rows=36) as again:
        vibe.at(again, "-c")
        again.wait_for("Plan paused (when you left)")
        again.wait_for("Paused plan  1 of 2 done · paused ")
        again.wait_for("Enter resume")
        again.type("/plan resume")
        again.wait_for(" two ")
        again.press("C-d")
        again.wait_for("Leave?")
        again.press("p")
        again.wait_for("EXIT 0")
    with Tmux(vibe.workdir, columns=120, rows=36) as anew:
        vibe.at(anew)
        anew.wait_for("Paused here")
        anew.type("/plan resume")
        # What was done in another conversation is drawn with its time.
        until(lambda: re.search(r"✓ one .*━.* 1\.\d s", "\n".join(anew.screen())))
        anew.press("C-d")
        anew.wait_for("Leave?")
        anew.press("p")
        anew.wait_for("EXIT 0")


def test_a_plan_that_is_left_running_ends_without_the_screen(
    vibe: VibeCommand, tmux: Tmux, write_plan: Callable[..., str]
) -> None:
    vibe.replay(turns({"text": "Hello."}))
    vibe.at(tmux)
    wait = "echo at work >> marks; until test -e go; do sleep 0.1; done; touch done.txt"
    run_plan(tmux, write_plan(command_step("one", "true"), command_step("two", wait, depends_on=["one"])))
    tmux.wait_for("1/2 · ")
    tmux.press("C-d")
    tmux.wait_for("b leave it running")
    tmux.press("b")
    tmux.wait_for("the plan goes on · vibe --attach ")
    tmux.wait_for("EXIT 0")
    until(lambda: (vibe.workdir / "marks").read_text().count("at work") == 2)
    (vibe.workdir / "go").touch()
    until((vibe.workdir / "done.txt").exists)


def test_an_answer_stays_in_sight_and_time_tokens_and_thinking_are_told(vibe: VibeCommand, tmux: Tmux) -> None:
    sign = "\u26a0\ufe0f"  # two cells, but only one in tmux
    question = {"question": f"{sign}Which money?", "options": [{"label": "int cents"}, {"label": "float"}]}
    asked = {"questions": [question]}
    vibe.replay(
        turns({"tool_calls": [{"name": "ask_user_question", "arguments": asked}]}, {"text": "Then cents it is."})
    )
    vibe.at(tmux, "hi")
    tmux.wait_for("1-3 answer")
    tmux.press("1")
    tmux.wait_for(f"→ {sign} Which money?  int cents")
    tmux.wait_for("you, ")
    [row] = [line for line in tmux.screen() if "you, " in line]
    assert len(row.replace("\ufe0f", "")) == WINDOW[0] - 2, "as without the sign"
    tmux.wait_for(" tok")
    tmux.press("Tab")
    tmux.wait_for("j k mark")
    tmux.press("Tab")
    tmux.wait_for("> Ask anything")
    tmux.type("/nosuchcommand")
    tmux.wait_for("unknown command")
    tmux.press("C-c")
    tmux.press("C-d")
    tmux.wait_for("EXIT 0")


def test_without_colours_nothing_is_coloured_and_the_cursor_is_seen(vibe: VibeCommand, tmux: Tmux) -> None:
    vibe.replay(turns({"text": "Hello **there**: `code`."}))
    vibe.environ["NO_COLOR"] = "1"
    vibe.at(tmux, "hi")
    tmux.wait_for("Hello there")
    tmux.type("abc", enter=False)
    tmux.wait_for("> abc")
    sent = tmux.sequences()
    assert not re.search(r"\x1b\[[0-9;]*\b[34]8;", sent), sent
    assert re.search(r"abc\x1b\[[0-9;]*7m ", sent), sent
    tmux.press("C-c")
    tmux.press("C-d")
    tmux.wait_for("EXIT 0")


def test_with_16_colours_and_ascii_the_terminal_gets_nothing_else(vibe: VibeCommand, tmux: Tmux) -> None:
    vibe.replay(turns(bash("true"), {"text": "Hello **there**: `code`."}))
    with (vibe.home / "config.toml").open("a") as settings:
        settings.write('\n[ui]\ntheme = "16-colours"\nglyphs = "ascii"\n')
    vibe.at(tmux, "--auto-approve", "hi")
    tmux.wait_for("Hello there")
    tmux.wait_for("+ bash true")
    sent = tmux.sequences()
    assert not re.search(r"\x1b\[[0-9;]*\b[34]8;", sent), sent
    assert re.search(r"\x1b\[[0-9;]*\b32m?", sent), sent
    assert "".join(tmux.screen()).isascii()
    tmux.press("C-d")
    tmux.wait_for("EXIT 0")


def test_an_image_without_a_prompt_has_nowhere_to_go(vibe: VibeCommand, tmux: Tmux) -> None:
    vibe.replay(turns())
    vibe.at(tmux, "--image", "dot.png")
    tmux.wait_for("--image goes with -p")
    tmux.wait_for("EXIT 2")


def test_own_commands_and_skills_are_prompts_also_while_the_agent_works(vibe: VibeCommand, tmux: Tmux) -> None:
    vibe.replay(
        turns({"text": "One."}, {"text": "Two."}, {"text": "slowly " * 20, "delay_seconds": 4}, {"text": "Four."})
    )
    (vibe.home / "commands").mkdir(parents=True, exist_ok=True)
    (vibe.home / "commands" / "go.md").write_text("Go and $ARGUMENTS.")
    write_skill(vibe.home / "skills", "look")
    vibe.at(tmux)
    tmux.wait_for("several agents, side by side")
    for typed, said in (("/go look", "One."), ("/look here", "Two.")):
        tmux.type(typed)
        tmux.wait_for(said)
    tmux.type("be slow")
    tmux.wait_for("slowly")
    tmux.type("/go again")
    tmux.wait_for("Four.")
    tmux.press("C-d")
    tmux.wait_for("EXIT 0")
    saved = "".join(path.read_text() for path in vibe.home.rglob("*.jsonl"))
    assert "Go and look." in saved
    assert "Go and again." in saved


def test_a_plan_that_the_chat_proposes_is_revised_accepted_and_runs_beside_it(vibe: VibeCommand, tmux: Tmux) -> None:
    def proposed(*names: str) -> dict[str, object]:
        steps = [command_step(name, f"touch {name}.txt") for name in names]
        return {"tool_calls": [{"name": "propose_plan", "arguments": {"goal": "Make files", "steps": steps}}]}

    vibe.replay(
        turns(proposed("one"), proposed("one", "two"), {"text": "It runs."}, {"text": "Still here."}, proposed("three"))
    )
    vibe.at(tmux, "make files")
    tmux.wait_for("Proposed plan")
    tmux.wait_for("r revise by a sentence")
    tmux.press("r")
    tmux.wait_for("what should change?")
    tmux.type("two of them")
    tmux.wait_for("→ to be changed: two of them")
    tmux.wait_for("version 2")
    tmux.wait_for("a accept and run")
    tmux.press("a")
    tmux.wait_for("It runs.")
    until((vibe.workdir / "two.txt").exists)
    tmux.wait_for("Plan completed")
    tmux.type("well?")
    tmux.wait_for("Still here.")
    tmux.type("and a third")
    tmux.wait_for("three.txt")
    tmux.press("Escape")
    tmux.wait_for("waits for you")
    tmux.press("Escape")  # stops the agent and its plan with it
    tmux.wait_for("stopped")
    until(lambda: not any("plan waits" in line for line in tmux.screen()))
    tmux.press("C-d")
    tmux.wait_for("EXIT 0")

    assert not (vibe.workdir / "three.txt").exists()


def test_shift_tab_goes_through_three_modes_and_everything_is_approved_only_by_name(
    vibe: VibeCommand, tmux: Tmux
) -> None:
    vibe.replay(turns({"text": "Hello."}))
    vibe.at(tmux, "hi")
    tmux.wait_for("Hello.")
    for mode in ("accepts edits · ", "plan mode · ", "asks · "):
        tmux.press("BTab")
        tmux.wait_for(mode)
    tmux.press("BTab", "BTab")
    tmux.wait_for("Enter proposes a plan")
    tmux.type("/agents auto-approve")
    tmux.wait_for("AUTO-APPROVES EVERYTHING")
    tmux.press("BTab")
    tmux.wait_for(" asks · ")
    tmux.press("C-d")
    tmux.wait_for("EXIT 0")


class CountedKeys:
    """A person whose keys are counted until what they want is on the screen."""

    def __init__(self, tmux: Tmux) -> None:
        self.tmux = tmux
        self.count = 0

    def press(self, *keys: str) -> None:
        self.count += len(keys)
        self.tmux.press(*keys)

    def taken(self, seen: str) -> int:
        """Wait for a text, and return the number of keys since the last time."""
        self.tmux.wait_for(seen)
        count, self.count = self.count, 0
        return count


def test_what_people_do_every_day_takes_few_keys(vibe: VibeCommand, tmux: Tmux, write_plan: Callable[..., str]) -> None:
    long = "\n\n".join(f"paragraph {number}" for number in range(100))
    vibe.replay(turns(bash("echo new > made.txt"), {"text": long}))
    vibe.at(tmux, "make it")
    person = CountedKeys(tmux)
    tmux.wait_for("y yes")
    person.press("y")
    assert person.taken("paragraph 99") == 1, "to approve a call"
    until(lambda: not any("Esc stops" in line for line in tmux.screen()))

    person.press("PageUp")
    until(lambda: "paragraph 99" not in "".join(tmux.screen()))
    assert person.taken("paragraph 8") == 1, "to look a page up"
    person.press("PageDown")
    assert person.taken("paragraph 99") == 1, "to come back"

    person.press("C-p", "t", "Enter")
    tmux.wait_for("▸ follow the terminal")
    person.press("Down")
    assert person.taken("▸ vibe-dark") <= 4, "to look at a theme"
    person.press("Escape")
    until(lambda: not any("▸ vibe-dark" in line for line in tmux.screen()))
    person.count = 0

    person.press("Escape", "Escape")
    tmux.wait_for("made.txt  deleted (new since then)")
    person.press("Enter")
    assert person.taken("1 file restored") <= 5, "to go back to before a prompt"
    person.press("C-u")

    tmux.type(f"/plan load {write_plan(command_step('build', 'test -e gate'))}")
    tmux.wait_for("accept and run")
    tmux.press("a")
    tmux.wait_for("Failed  build")
    (vibe.workdir / "gate").touch()
    person.count = 0
    person.press("r")
    assert person.taken("Plan completed") == 1, "to try a failed step again"
    tmux.press("C-d")
    tmux.wait_for("EXIT 0")
