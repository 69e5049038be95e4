"""``--input json``: another program holds the conversation with JSON lines.

Covers ``vibe.cli.commands``, ``vibe.app.conversation``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from ipc.registry import Registry
from tests.e2e.conftest import VIBE, VibeCommand, command_step
from tests.e2e.test_images import PICTURE
from tests.fakes.line_program import LineProgram
from tests.fakes.waiting import until
from vibe.cli.commands.input_stream import NOTHING_TAKEN

WritePlan = Callable[..., str]

WRITE = {"name": "write_file", "arguments": {"path": "a.txt", "content": "hello\n"}}
SLEEP = {"name": "bash", "arguments": {"command": "touch started; sleep 600"}}
QUESTION = {"question": "Which one?", "header": "Auth", "options": [{"label": "JWT"}, {"label": "Cookies"}]}
ASK = {"name": "ask_user_question", "arguments": {"questions": [QUESTION]}}
CHOICE: dict[str, Any] = {
    "id": "d",
    "question": "Which?",
    "options": [{"id": "left", "label": "L"}, {"id": "right", "label": "R"}],
}
FIRST = ("-p", "--input", "json")


def turns(*given: dict[str, Any]) -> dict[str, Any]:
    return {"agents": {"main": {"turns": list(given)}}}


def program(vibe: VibeCommand, *words: str) -> LineProgram:
    return LineProgram([VIBE, *words], cwd=vibe.workdir, env=vibe.variables())


def commands(*given: dict[str, Any]) -> str:
    return "".join(f"{json.dumps(one)}\n" for one in given)


def prompt(text: str = "go", **more: Any) -> dict[str, Any]:
    return {"type": "prompt", "text": text, **more}


def of(kind: str, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in lines if line["type"] == kind]


def test_a_blank_text_is_refused_and_the_run_goes_on(vibe: VibeCommand) -> None:
    vibe.replay(turns({"text": "one"}))

    given = commands(prompt(" \n"), {"type": "steer", "text": "\t"}, prompt("go"))
    ended = vibe(*FIRST, stdin=given)

    assert [reply["reason"] for reply in of("reply", ended.lines)] == ["invalid", "invalid", None]
    assert [record["result"] for record in of("result", ended.lines)] == ["one"]


def test_a_program_holds_a_conversation_and_is_asked(vibe: VibeCommand) -> None:
    vibe.replay(turns({"tool_calls": [WRITE]}, {"tool_calls": [ASK]}, {"text": "one"}, {"text": "two"}))
    with program(vibe, *FIRST) as run:
        first = run.asked("prompt", text="Write a.txt", command_id="p1")
        request = run.next("approval.requested")
        approved = run.asked("approve", request_id=request["request_id"], allow=True, command_id="a1")
        question = run.next("question.asked")
        [listed] = run.asked("requests")["data"]["requests"]
        run.send("answer", request_id=question["request_id"], answers=[["Cookies"]])
        one = run.next("result")
        second = run.asked("prompt", text="again")
        two = run.next("result")
        code = run.end()

    assert first == {
        "type": "reply",
        "command_id": "p1",
        "ok": True,
        "reason": None,
        "message": "queued",
        "data": {"prompt_id": one["prompt_id"]},
    }
    assert (approved["command_id"], approved["message"]) == ("a1", "allowed")
    assert (listed["kind"], listed["answer_with"]) == ("question", "answer")
    assert (one["outcome"], one["exit_code"], one["result"]) == ("completed", 0, "one")
    assert (second["data"]["prompt_id"], second["command_id"], two["result"]) == (two["prompt_id"], None, "two")
    assert (vibe.workdir / "a.txt").read_text() == "hello\n"
    assert code == 0
    kinds = [line["type"] for line in run.lines]
    assert kinds.index("reply") < kinds.index("prompt.started")  # a queued prompt is acknowledged before it begins
    assert [line["prompt_id"] for line in run.of("prompt.started")] == [one["prompt_id"], two["prompt_id"]]
    assert kinds[-1] == "session.ended"
    assert [line["seq"] for line in run.lines if "seq" in line] == list(range(1, len(kinds) - len(run.of("reply")) - 1))


def test_what_is_no_command_is_said_and_the_run_goes_on(vibe: VibeCommand) -> None:
    vibe.replay(turns({"text": "done"}))
    given = [
        "{torn",
        "nonsense",
        "[1]",
        '{"type": "dance", "command_id": "c"}',
        '{"type": "prompt", "command_id": 3}',
        '{"type": "prompt", "text": "a", "colour": "red"}',
        "",
        '{"type": "prompt", "text": ' + "[" * 200_000,
        json.dumps(prompt("x" * 4_200_000)),
        json.dumps({"type": "pause", "command_id": "q"}),
        json.dumps({"type": "ping"}),
        json.dumps(prompt()),  # the last line needs no line feed
    ]

    ended = vibe(*FIRST, stdin="\n".join(given))

    replies = of("reply", ended.lines)
    assert [reply["reason"] for reply in replies] == [*["invalid"] * 8, "refused", None, None]
    assert [reply["command_id"] for reply in replies] == [None, None, None, "c", *[None] * 4, "q", None, None]
    assert "4,194,304 bytes" in replies[7]["message"]
    assert "dance" in replies[3]["message"]
    assert (ended.code, of("result", ended.lines)[0]["result"]) == (0, "done")


def test_a_byte_order_mark_is_no_part_of_a_line(vibe: VibeCommand) -> None:
    vibe.replay(turns({"text": "one"}, {"text": "two"}))

    ended = vibe(*FIRST, stdin=f"\ufeff\n\ufeff{commands(prompt())}\ufeff{commands(prompt())}")

    assert [(reply["ok"], reply["message"]) for reply in of("reply", ended.lines)] == [(True, "queued")] * 2
    assert [result["result"] for result in of("result", ended.lines)] == ["one", "two"]


def test_the_first_answer_counts_from_either_side(vibe: VibeCommand) -> None:
    other = {"name": "write_file", "arguments": {"path": "b.txt", "content": "b\n"}}
    vibe.replay(turns({"tool_calls": [WRITE]}, {"tool_calls": [other]}, {"text": "done"}))
    with program(vibe, *FIRST) as run:
        run.send("prompt", text="go")
        request = run.next("approval.requested")
        source, key = request["source"][:8], request["request_id"]
        assert vibe("events", "answer", source, key[:8], "yes").code == 0
        again = run.next("approval.requested")  # which may come before the reply
        late = run.asked("approve", request_id=key, allow=False)
        run.asked("approve", request_id=again["request_id"], allow=False, reason="not b")
        refused = vibe("events", "answer", source, again["request_id"], "yes")
        run.next("result")
        assert run.end() == 0

    assert (late["ok"], late["reason"]) == (False, "refused")
    assert "already allowed by control" in late["message"]
    assert (refused.code, (vibe.workdir / "a.txt").exists(), (vibe.workdir / "b.txt").exists()) == (2, True, False)
    assert "already denied" in refused.err


def test_at_the_end_of_input_what_is_queued_is_done_and_requests_have_no_answer(vibe: VibeCommand) -> None:
    vibe.replay(turns({"text": "one"}, {"tool_calls": [WRITE]}, {"text": "I was not allowed to."}))

    ended = vibe(*FIRST, stdin=commands(prompt("first"), prompt("second")))

    one, two = of("result", ended.lines)
    assert (one["outcome"], two["outcome"], two["exit_code"], ended.code) == ("completed", "blocked", 5, 5)
    assert "no one answered before the end of standard input" in two["detail"]
    [decided] = of("approval.decided", ended.lines)
    assert (decided["decision"], decided["by"]) == ("deny", "nobody")
    assert not (vibe.workdir / "a.txt").exists()


def test_the_end_of_input_denies_what_is_open(vibe: VibeCommand) -> None:
    vibe.replay(turns({"tool_calls": [WRITE]}, {"text": "I was not allowed to."}))
    with program(vibe, *FIRST) as run:
        run.send("prompt", text="go")
        run.next("approval.requested")
        assert run.end() == 5

    assert run.of("result")[0]["outcome"] == "blocked"


def test_a_question_without_an_answer_leaves_the_work_blocked(vibe: VibeCommand) -> None:
    vibe.replay(turns({"tool_calls": [ASK]}, {"text": "I assume JWT."}))

    ended = vibe(*FIRST, stdin=commands(prompt()))

    [record] = of("result", ended.lines)
    assert (record["outcome"], record["denied"][0]["by"], ended.code) == ("blocked", "headless", 5)
    [answered] = of("question.answered", ended.lines)
    assert (answered["cancelled"], answered["by"]) == (True, "nobody")


def test_no_prompt_is_no_failure(vibe: VibeCommand) -> None:
    vibe.replay(turns())

    ended = vibe(*FIRST)

    assert (ended.code, [line["type"] for line in ended.lines]) == (0, ["session.started", "session.ended"])


@pytest.mark.parametrize("line", ["{torn", '{"type": "dance"}', json.dumps(prompt(images=["gone.png"]))])
def test_where_all_is_refused_nothing_was_done_and_that_is_no_success(vibe: VibeCommand, line: str) -> None:
    vibe.replay(turns())

    ended = vibe(*FIRST, stdin=f'{{"type": "ping"}}\n{line}\n')

    assert (ended.code, ended.err) == (2, f"vibe: {NOTHING_TAKEN}\n")
    assert of("session.ended", ended.lines)[0]["outcome"] == "failed"


def test_a_hundred_prompts_wait_and_a_signal_takes_them_back(vibe: VibeCommand) -> None:
    vibe.replay(turns({"tool_calls": [SLEEP]}, {"text": "never"}))
    with program(vibe, *FIRST, "--yolo") as run:
        run.send("prompt", text="go")
        until((vibe.workdir / "started").exists)
        for number in range(101):
            run.send("prompt", text=f"more {number}")
        last = run.next("reply", lambda line: not line["ok"])
        steered = run.asked("steer", text="hurry")
        run.process.send_signal(signal.SIGTERM)
        code = run.rest()

    assert (last["reason"], last["message"].startswith("100 prompts are waiting")) == ("refused", True)
    assert steered["ok"]
    results = run.of("result")
    assert [(one["outcome"], one["exit_code"]) for one in results] == [("interrupted", 143)] * 101
    asked = [one["data"]["prompt_id"] for one in run.of("reply") if "prompt_id" in one["data"]]
    assert [one["prompt_id"] for one in results] == asked
    assert code == 143


def test_an_interruption_ends_one_prompt_and_a_cancellation_all(vibe: VibeCommand) -> None:
    vibe.replay(turns({"tool_calls": [SLEEP]}, {"tool_calls": [SLEEP]}, {"text": "never"}))
    with program(vibe, *FIRST, "--yolo") as run:
        run.send("prompt", text="one")
        until((vibe.workdir / "started").exists)
        assert run.asked("interrupt")["ok"]
        one = run.next("result")
        (vibe.workdir / "started").unlink()
        run.send("prompt", text="two")
        until((vibe.workdir / "started").exists)
        cancelled = run.asked("cancel", command_id="c")
        assert (cancelled["ok"], cancelled["command_id"]) in {(True, "c"), (True, None)}
        code = run.rest()  # standard input is still open

    assert (one["outcome"], run.of("result")[-1]["outcome"], code) == ("interrupted", "interrupted", 130)


def test_who_reads_nothing_any_more_has_ended_the_input(vibe: VibeCommand) -> None:
    vibe.replay(turns({"text": "one"}))
    with program(vibe, *FIRST) as run:
        run.send("prompt", text="go")
        run.next("result")
        assert run.process.stdout is not None
        run.process.stdout.close()

        assert run.process.wait(60) == 0  # standard input is still open


def test_a_prompt_may_bring_pictures_and_want_a_value(vibe: VibeCommand) -> None:
    (vibe.workdir / "dot.png").write_bytes(PICTURE)
    (vibe.workdir / "s.json").write_text('{"type": "integer"}')
    give = [{"tool_calls": [{"name": "hand_in", "arguments": {"value": value}}]} for value in (["a"], 3)]
    vibe.replay(turns(*give, {"text": "plain"}))
    lists = {"type": "array", "items": {"type": "string"}}

    ended = vibe(
        *FIRST,
        stdin=commands(
            prompt(images=["missing.png"]),
            prompt(output_schema={"type": "nope"}),
            prompt(output_schema=lists, images=["dot.png"]),
            prompt(output_schema="s.json"),
            prompt(),
        ),
    )

    first, second, *_ = of("reply", ended.lines)
    assert (first["reason"], second["reason"]) == ("refused", "refused")
    assert "missing.png can't be read" in first["message"]
    assert "'nope' is not a JSON Schema type" in second["message"]
    one, two, three = of("result", ended.lines)
    assert (one["value"], two["value"], "value" in three) == (["a"], 3, False)
    assert [line["images"] for line in of("user.message", ended.lines) if line["origin"] == "prompt"] == [1, 0, 0]


def test_a_prompt_that_says_nothing_to_the_agent_has_its_result(vibe: VibeCommand) -> None:
    vibe.replay(turns({"text": "done"}))

    ended = vibe(*FIRST, "--output-dir", "out", stdin=commands(prompt("/nosuch"), prompt()))

    one, two = of("result", ended.lines)
    assert (one["outcome"], one["exit_code"], one["reason"]) == ("failed", 2, "usage")
    assert "nosuch" in one["detail"]
    assert (two["result"], ended.code) == ("done", 0)
    assert json.loads((vibe.workdir / "out" / "result.json").read_text())["result"] == "done"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*FIRST, "--output", "text"), "answers in JSON lines: leave --output out, or give streaming"),
        ((*FIRST, "--output", "json"), "answers in JSON lines: leave --output out, or give streaming"),
        (("-p", "go", "--input", "json"), "takes its prompts from standard input: leave the prompt out"),
        (("--input", "json", "go"), "takes its prompts from standard input: leave the prompt out"),
        ((*FIRST, "-"), "takes its prompts from standard input: leave the prompt out"),
        (("plan", "run", "-", "--input", "json"), "name a file"),
        (("plan", "run", "p.json", "--input", "json", "--output", "text"), "leave --output out"),
    ],
)
def test_what_does_not_fit_is_refused(vibe: VibeCommand, words: tuple[str, ...], said: str) -> None:
    ended = vibe(*words, stdin=commands(prompt()))

    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert not vibe.home.joinpath("logs").exists()


def test_a_program_runs_a_plan_by_lines(vibe: VibeCommand, write_plan: WritePlan) -> None:
    vibe.replay({"agents": {"w": {"turns": [{"tool_calls": [WRITE]}, {"text": "done"}]}}})
    step = {"id": "w", "title": "Write", "mode": "code", "prompt": "Go.", "depends_on": ["a"]}
    plan = write_plan(command_step("a", "true", decision="d"), step, decisions=[CHOICE])
    with program(vibe, "plan", "run", plan, "--input", "json") as run:
        run.next("plan.decision")
        assert run.asked("ping")["ok"]
        assert run.asked("prompt", text="go")["reason"] == "refused"
        add = {"op": "add_step", "step": command_step("b", "touch b")}
        assert run.asked("revise", operations=[add])["data"]["operations"]
        assert run.asked("steer", step_id="w", text="be quick")["ok"]
        assert run.asked("decide", decision_id="d", selections=["left"], command_id="d1")["ok"]
        request = run.next("approval.requested")
        assert run.asked("approve", request_id=request["request_id"], allow=True)["ok"]
        code = run.rest()  # standard input stays open

    record = run.lines[-1]
    assert (record["type"], record["outcome"], code) == ("result", "completed", 0)
    assert [step["status"] for step in record["steps"]] == ["completed"] * 3
    assert (vibe.workdir / "a.txt").exists()


def test_a_plan_pauses_for_what_has_no_answer_at_the_end_of_input(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(command_step("a", "true", decision="d"), command_step("b", "touch b"), decisions=[CHOICE])

    ended = vibe("plan", "run", plan, "--input", "json")

    assert (ended.code, ended.lines[-1]["outcome"], ended.lines[-1]["reason"]) == (5, "blocked", "decision")
    assert (vibe.workdir / "b").exists()


def test_a_plan_is_cancelled_and_its_steps_acted_on_by_lines(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(command_step("a", "touch started; sleep 600"), command_step("b", "sleep 600"))
    with program(vibe, "plan", "run", plan, "--input", "json") as run:
        until((vibe.workdir / "started").exists)
        assert run.asked("step_act", step_id="b", action="cancel")["ok"]
        assert run.asked("step_act", step_id="x", action="skip")["reason"] == "refused"
        assert run.asked("cancel")["ok"]
        run.rest()

    steps = {step["id"]: step["status"] for step in run.lines[-1]["steps"]}
    assert (run.lines[-1]["outcome"], steps) == ("interrupted", {"a": "cancelled", "b": "cancelled"})


def test_commands_of_the_agent_do_not_eat_the_input(vibe: VibeCommand) -> None:
    call = {"name": "bash", "arguments": {"command": "cat"}}
    vibe.replay(turns({"tool_calls": [call]}, {"text": "one"}, {"text": "two"}))
    with program(vibe, *FIRST, "--yolo") as run:
        run.send("prompt", text="go")
        run.send("prompt", text="more")
        run.write(b"\xff is no text\n")
        assert run.next("reply", lambda line: not line["ok"])["reason"] == "invalid"
        run.next("result")
        assert run.next("result")["result"] == "two"
        assert run.end() == 0


def test_a_reader_that_is_slow_gets_every_line(vibe: VibeCommand) -> None:
    vibe.replay(turns(*({"text": "x" * 20_000} for _ in range(20))))
    with program(vibe, *FIRST) as run:
        for number in range(20):
            run.send("prompt", text=f"go {number}")
        run.stdin.close()
        until(lambda: not Registry(vibe.home).running() and next(vibe.home.glob("logs/session/*/meta.json"), None))

        assert run.rest() == 0

    assert len(run.of("result")) == 20
    seqs = [line["seq"] for line in run.lines if "seq" in line]
    assert seqs == list(range(1, len(seqs) + 1))


def test_a_fifo_that_stays_open_is_no_end(vibe: VibeCommand) -> None:
    vibe.replay(turns({"text": "one"}))
    os.mkfifo(vibe.workdir / "in")
    hold = os.open(vibe.workdir / "in", os.O_RDWR)
    try:
        process = subprocess.Popen(
            [VIBE, *FIRST], cwd=vibe.workdir, env=vibe.variables(), stdin=hold, stdout=subprocess.PIPE
        )
        vibe.running.append(process)
        os.write(hold, commands(prompt()).encode())
        assert process.stdout is not None
        for raw in process.stdout:
            if json.loads(raw)["type"] == "result":
                break
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    finally:
        os.close(hold)
