"""``vibe events answer``: open requests are listed and answered from other processes, and the first answer counts.

Covers ``vibe.cli.commands``, ``ipc``.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.conftest import Finished, VibeCommand, command_step
from tests.fakes.terminal import Terminal
from tests.fakes.waiting import until

WritePlan = Callable[..., str]

QUESTION = {"question": "Which one?", "header": "Auth", "options": [{"label": "JWT"}, {"label": "Cookies"}]}
LAST = {"question": "Is that all?", "options": [{"label": "Yes"}, {"label": "No"}]}
DATABASE = {
    "id": "db",
    "question": "Which database?",
    "options": [{"id": "pg", "label": "PostgreSQL, hosted"}, {"id": "files", "label": "Plain files"}],
}
STEP = {"id": "w", "title": "Write", "mode": "code", "prompt": "Go."}
HOLD = command_step("hold", "while [ ! -e go ]; do sleep 0.05; done")


def shell(command: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": "bash", "arguments": {"command": command}}]}


def ask(*questions: dict[str, Any]) -> dict[str, Any]:
    return {"tool_calls": [{"name": "ask_user_question", "arguments": {"questions": list(questions)}}]}


def printed(process: subprocess.Popen[bytes], pattern: str) -> list[str]:
    """Return the groups of a pattern in the next printed line that matches it."""
    assert process.stdout is not None
    for line in process.stdout:
        if match := re.search(pattern, line.decode()):
            return list(match.groups())
    raise AssertionError(f"it never printed {pattern}")


def both(vibe: VibeCommand, *words: str, ana: str, ben: str) -> tuple[str, Finished, Finished]:
    """Answer from two processes at once, and return the winner's name, its output, and the loser's output."""
    runs = {
        by: vibe.start("events", "answer", *words, answer, "--by", by) for by, answer in (("ana", ana), ("ben", ben))
    }
    ended = {by: (run.communicate(timeout=120), run.returncode) for by, run in runs.items()}
    told = {by: Finished(code, out.decode(), err.decode()) for by, ((out, err), code) in ended.items()}
    assert sorted(each.code for each in told.values()) == [0, 2], told
    winner, loser = ("ana", "ben") if told["ana"].code == 0 else ("ben", "ana")
    return winner, told[winner], told[loser]


@pytest.mark.parametrize("executor", ["local", "process"])
def test_a_permission_question_is_answered_once_and_the_second_is_told_who_was_first(
    vibe: VibeCommand, write_plan: WritePlan, executor: str
) -> None:
    vibe.replay({"agents": {"w": {"turns": [shell("touch made"), shell("touch more"), {"text": "done"}]}}})
    process = vibe.start("plan", "run", write_plan(STEP), "--wait", "--executor", executor)
    plan, request = printed(process, r"answer with: vibe plan approve (\S+) (\S+)")

    listed = vibe("events", "answer", plan, "--output", "json").document
    winner, first, second = both(vibe, plan, request, ana="yes", ben="yes")

    [asked] = listed["requests"]
    assert (asked["kind"], asked["step_id"], asked["arguments"]["command"]) == ("approval", "w", "touch made")
    assert first.out == "allowed\n"
    assert (second.out, f"already allowed by {winner}" in second.err) == ("", True), second.err
    _, request = printed(process, r"answer with: vibe plan approve (\S+) (\S+)")
    said = vibe("events", "answer", plan, request, "no", "--reason", "not today")
    assert (said.code, said.out) == (0, "denied\n")
    process.communicate(timeout=120)
    assert (vibe.workdir / "made").exists()
    assert not (vibe.workdir / "more").exists()
    (path,) = (vibe.home / "plans").glob("*/steps/w/messages.jsonl")
    assert "not today" in path.read_text()


@pytest.mark.parametrize("executor", ["local", "process"])
def test_a_call_is_approved_while_the_question_of_another_step_is_open(
    vibe: VibeCommand, write_plan: WritePlan, executor: str
) -> None:
    asking = {"turns": [ask(QUESTION), {"text": "done"}]}
    made = "until [ -e asked ]; do sleep 0.02; done; touch made"
    vibe.replay({"agents": {"q": asking, "w": {"turns": [shell(made), {"text": "done"}]}}})
    steps = {**STEP, "id": "q", "mode": "research"}, STEP
    process = vibe.start("plan", "run", write_plan(*steps), "--wait", "--executor", executor)
    asked = [printed(process, r"answer with: vibe (plan approve|events answer) (\S+) (\S+)") for _ in range(2)]
    (plan,) = {plan for _, plan, _ in asked}
    request, question = (
        next(each for how, _, each in asked if how == kind) for kind in ("plan approve", "events answer")
    )
    (vibe.workdir / "asked").touch()

    assert vibe("events", "answer", plan, request, "yes").code == 0
    until((vibe.workdir / "made").exists, 60)
    assert [each["kind"] for each in vibe("events", "answer", plan, "--output", "json").document["requests"]] == [
        "question"
    ]
    assert vibe("events", "answer", plan, question, "1").code == 0
    assert process.wait(timeout=120) == 0


@pytest.mark.parametrize("executor", ["local", "process"])
def test_an_agents_question_is_answered_once_and_the_second_is_told_who_was_first(
    vibe: VibeCommand, write_plan: WritePlan, executor: str
) -> None:
    vibe.replay({"agents": {"w": {"turns": [ask(QUESTION), ask(QUESTION, LAST), ask(LAST), {"text": "done"}]}}})
    process = vibe.start("plan", "run", write_plan({**STEP, "mode": "research"}), "--wait", "--executor", executor)
    plan, request = printed(process, r"answer with: vibe events answer (\S+) (\S+) ANSWER")

    listed = vibe("events", "answer", plan)
    winner, first, second = both(vibe, plan, request, ana="1", ben="Cookies")

    answer = {"ana": "JWT", "ben": "Cookies"}[winner]
    assert re.search(rf"{request} +question +w +Which one\? \(JWT \| Cookies, or your own words\)", listed.out), listed
    assert first.out == f"answered ({answer})\n"
    assert f"already answered ({answer}) by {winner}" in second.err
    _, request = printed(process, r"answer with: vibe events answer (\S+) (\S+) ANSWER")
    few = vibe("events", "answer", plan, request, "JWT")
    assert (few.code, "2 expected" in few.err) == (2, True)
    assert vibe("events", "answer", plan, request, "a magic link", "2").code == 0
    _, request = printed(process, r"answer with: vibe events answer (\S+) (\S+) ANSWER")
    assert vibe("events", "answer", plan, request, "-", "--by", "ben").out == "declined\n"
    assert process.wait(timeout=120) == 0
    assert "question cancelled (ben)" in vibe("events", "tail", plan, "--from", "1").out
    (path,) = (vibe.home / "plans").glob("*/steps/w/messages.jsonl")
    text = path.read_text()
    assert f"Which one?\\n→ {answer}" in text
    assert "→ a magic link (own words)" in text
    assert "Is that all?\\n→ No" in text


def test_a_decision_is_taken_once_and_the_second_is_told_who_was_first(
    vibe: VibeCommand, write_plan: WritePlan
) -> None:
    plan = write_plan(
        HOLD,
        command_step("setup", "echo pg > choice.txt", decision="db", when={"db": ["pg"]}),
        command_step("files", "echo files > choice.txt", decision="db", when={"db": ["files"]}),
        decisions=[DATABASE],
    )
    process = vibe.start("plan", "run", plan, "--wait")
    [plan_id] = printed(process, r"decide with: vibe plan decide (\S+) db OPTION")

    listed = vibe("events", "answer", plan_id)
    wrong = vibe("events", "answer", plan_id, "db", "oracle")
    winner, first, second = both(vibe, plan_id, "db", ana="postgresql, hosted", ben="2")

    option = {"ana": "pg", "ben": "files"}[winner]
    assert re.search(r"db +decision +- +Which database\? \(pg \| files\)", listed.out), listed
    assert "(pg | files): 1 PostgreSQL, hosted, 2 Plain files\n" in listed.out
    assert (wrong.code, "oracle" in wrong.err) == (2, True)
    assert first.out == f"decided 'db': {option}\n"
    assert f"by {winner}" in second.err
    assert option in second.err
    (vibe.workdir / "go").touch()
    assert process.wait(timeout=120) == 0
    assert (vibe.workdir / "choice.txt").read_text() == f"{option}\n"


def test_a_prompt_at_a_terminal_is_answered_from_elsewhere(vibe: VibeCommand) -> None:
    vibe.replay({"agents": {"main": {"turns": [shell("touch made"), {"text": "That was it."}]}}})
    with Terminal(100, 40) as terminal, vibe.on(terminal, "-p", "go", stdout=subprocess.PIPE) as process:
        terminal.wait_for("n WHY  >")
        [source] = [line.split()[0] for line in vibe("events", "list").out.splitlines()]
        [request] = vibe("events", "answer", source, "--output", "json").document["requests"]
        assert request["session_id"]
        said = vibe("events", "answer", source[:8], request["request_id"][:4], "yes", "--output", "json")
        out, _ = process.communicate(timeout=120)
        assert "answered by control" in terminal.sent()
    assert (said.document["message"], said.document["by"]) == ("allowed", "control")
    assert (process.returncode, out) == (0, b"That was it.\n")
    assert (vibe.workdir / "made").exists()


def test_what_can_not_be_answered_is_said(vibe: VibeCommand, write_plan: WritePlan) -> None:
    vibe.replay({"agents": {"w": {"turns": [shell("touch made"), {"text": "done"}]}}})
    process = vibe.start("plan", "run", write_plan(STEP), "--wait")
    plan, request = printed(process, r"answer with: vibe plan approve (\S+) (\S+)")

    for words, problem in (
        (("nonesuch",), "nonesuch is not a run on this machine"),
        ((plan, "ffffffff", "yes"), "no request 'ffffffff' is open; open: "),
        ((plan, "ffffffff", "JWT"), "no request 'ffffffff' is open; open: "),
        ((plan, request[:3], "yes"), f"no request '{request[:3]}' is open"),
        (
            (plan, request, "maybe"),
            "'maybe' is not an answer to a call: give y yes, s session, a always, e edits or n no",
        ),
        ((plan, request, "edits"), "not a file edit"),
        ((plan, request), f"an answer to {request} is missing"),
        ((plan, request, "yes", "--by", ""), "must be 1 to 100"),
    ):
        refused = vibe("events", "answer", *words)
        assert (refused.code, refused.out) == (2, ""), words
        assert problem in refused.err, refused.err
    assert vibe("events", "answer", plan, request, "always").code == 0
    assert process.wait(timeout=120) == 0
    over = vibe("events", "answer", plan, request, "yes")
    assert (over.code, over.out) == (2, "")
    assert "has ended" in over.err


def test_a_run_that_asks_nobody_has_nothing_to_answer(vibe: VibeCommand, write_plan: WritePlan) -> None:
    process = vibe.start("plan", "run", write_plan(HOLD))
    until(lambda: bool(vibe.plan_ids()) and "no run" not in vibe("events", "list").out)
    (plan_id,) = vibe.plan_ids()
    until(lambda: "is not a run" not in vibe("events", "answer", plan_id).err)
    refused = vibe("events", "answer", plan_id)
    (vibe.workdir / "go").touch()
    assert process.wait(timeout=120) == 0
    assert (refused.code, refused.out) == (2, "")
    assert (
        "no one answers in this run: what needs approval is denied; with --wait it waits for an answer" in refused.err
    )
