"""Callbacks of a program: who is asked, what is hooked, and what happens to errors in them."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from anyio import create_task_group, to_thread

from ipc.events import ApprovalDecisionEvent, Event, QuestionEvent, SessionEndedEvent
from tests.integration.sdk.conftest import Program, calls
from vibe.sdk import Approval, ApprovalRequest, NotCompleted, UsageError
from vibe.sdk.options import Approve

WRITES = calls("write_file", '{"path": "b.txt", "content": "two\\n"}')
ASKS = calls(
    "ask_user_question",
    json.dumps({"questions": [{"question": "Which?", "options": [{"label": "One"}, {"label": "Two"}]}]}),
)


def results(program: Program) -> list[str]:
    return [one["content"] for one in program.messages() if one["role"] == "tool"]


async def test_without_anyone_to_ask_a_call_is_denied(program: Program) -> None:
    program.says(WRITES, "done")

    with pytest.raises(NotCompleted, match="blocked") as caught:
        await program.query("Write")

    assert [one.tool for one in caught.value.result.denied] == ["write_file"]
    assert not (program.folder / "b.txt").exists()


def plain(request: ApprovalRequest) -> bool:
    return request.tool == "write_file"


async def yes(request: ApprovalRequest) -> bool:
    return request.tool == "write_file"


async def answered(_: ApprovalRequest) -> Approval:
    return Approval(allow=True, scope="session")


@pytest.mark.parametrize("approve", [True, "edits", plain, yes, answered])
async def test_a_call_is_made_where_the_program_says_yes(program: Program, approve: Approve) -> None:
    program.says(WRITES, "done")

    answer = await program.query("Write", approve=approve)

    assert (program.folder / "b.txt").read_text() == "two\n"
    assert answer.files_changed == ("b.txt",)


async def test_a_no_has_a_reason_for_the_model(program: Program) -> None:
    said: list[Event] = []
    program.says(WRITES, "done")

    answer = await program.query(
        "Write", approve=lambda _: Approval(allow=False, reason="not here"), on_event=said.append, check=False
    )

    assert "not here" in results(program)[0]
    assert answer.outcome == "completed"
    (decided,) = (event for event in said if isinstance(event, ApprovalDecisionEvent))
    assert (decided.decision, decided.by) == ("deny", "program")


async def test_a_function_is_asked_whatever_the_settings_let_pass(program: Program) -> None:
    home = program.home.host.home / "config.toml"
    home.write_text(f"auto_approve = true\n{home.read_text()}")
    asked: list[str] = []
    program.says(WRITES, "done")

    await program.query("Write", approve=lambda request: bool(asked.append(request.tool)), check=False)

    assert asked == ["write_file"]


async def test_a_person_may_take_their_time_while_other_runs_go_on(program: Program) -> None:
    others_done = threading.Event()

    def at_the_prompt(_: ApprovalRequest) -> bool:
        return others_done.wait(60)

    program.says(WRITES, "other 1", "other 2", "other 3", "written")
    answers: list[str] = []
    async with program.session(approve=at_the_prompt) as session, create_task_group() as group:

        async def write() -> None:
            answers.append((await session.send("Write")).text)

        group.start_soon(write)
        await to_thread.run_sync(program.server.asked.wait, 60)
        for _ in range(3):
            assert (await program.query("Another")).text.startswith("other")
        others_done.set()

    assert answers == ["written "]


async def test_questions_are_answered_or_not_offered(program: Program) -> None:
    program.says(ASKS, "done", "done")

    def ask(questions: Sequence[Any]) -> list[str]:
        assert questions[0].question == "Which?"
        return ["Two"]

    await program.query("Ask", ask=ask)
    assert "Two" in results(program)[0]
    await program.query("Ask")

    offered = [[tool["function"]["name"] for tool in one.body["tools"]] for one in program.server.requests]
    assert "ask_user_question" in offered[0]
    assert "ask_user_question" not in offered[-1]


@pytest.mark.parametrize("said", [["a", "b"], "a", {"Which?": "a"}, 3, True, iter(["a"])])
async def test_answers_that_don_t_fit_are_told_to_the_program(program: Program, said: Any) -> None:
    program.says(ASKS)

    with pytest.raises(UsageError, match="one to each question: 1 here"):
        await program.query("Ask", ask=lambda _: said)


async def test_hooks_see_the_payload_and_stop_or_comment(program: Program) -> None:
    seen: list[dict[str, Any]] = []

    def before(payload: dict[str, Any]) -> str | None:
        seen.append(payload)
        return "no files" if payload["tool"] == "write_file" else None

    async def after(payload: dict[str, Any]) -> str:
        return f"{payload['tool']} took a while"

    def ends(payload: dict[str, Any]) -> dict[str, Any]:
        return {} if payload["stop_hook_active"] else {"decision": "block", "reason": "say it again"}

    program.says(WRITES, calls("read_file", '{"path": "a.txt"}'), "done", "done again")
    hooks = {"before_tool": before, "after_tool": [after], "post_agent_turn": ends}
    answer = await program.query("Write", hooks=hooks, approve=True, check=False)

    assert [one["arguments"]["path"] for one in seen] == ["b.txt", "a.txt"]
    assert "denied by hook 'before of the program': no files" in results(program)[0]
    assert answer.text == "done again "
    told = json.dumps(program.messages())
    assert "read_file took a while" in told
    assert "say it again" in told
    assert not (program.folder / "b.txt").exists()


async def test_a_hook_changes_the_arguments_of_a_call(program: Program) -> None:
    program.says(WRITES, "done")

    def other(payload: dict[str, Any]) -> dict[str, Any]:
        return {"hook_specific_output": {"tool_input": {**payload["arguments"], "path": "c.txt"}}}

    await program.query("Write", hooks={"before_tool": other}, approve=True)

    assert (program.folder / "c.txt").exists()


def wants_a_person(_: dict[str, Any]) -> dict[str, Any]:
    decision = {"permissionDecision": "ask", "permissionDecisionReason": "it is Friday"}
    return {"hookSpecificOutput": decision}


async def test_a_hook_that_asks_has_the_user_asked_though_all_is_approved(program: Program) -> None:
    program.says(WRITES, "done")

    answer = await program.query("Write", hooks={"before_tool": wants_a_person}, approve=True, check=False)

    reason = "the hook 'wants_a_person of the program' wants you to decide: it is Friday, and no one can approve"
    assert answer.denied[0].reason.startswith(reason)
    assert not (program.folder / "b.txt").exists()


async def test_a_hook_that_asks_asks_every_time_but_never_twice(program: Program) -> None:
    asked: list[str] = []

    def approve(request: ApprovalRequest) -> Approval:
        asked.append(request.reason)
        return Approval(allow=True, scope="session")

    program.says(WRITES, WRITES, "done")
    await program.query("Write", hooks={"before_tool": wants_a_person}, approve=approve)

    assert len(asked) == 2
    assert "it is Friday" not in asked[0]
    assert "it is Friday" in asked[1]


async def test_an_unknown_event_of_hooks_is_told(program: Program) -> None:
    with pytest.raises(UsageError, match="hooks='sometimes': give one of before_tool, after_tool, post_agent_turn"):
        await program.query("Write", hooks={"sometimes": print})


def fails(*_: Any) -> Any:
    raise ZeroDivisionError("mine")


@pytest.mark.parametrize(
    "options", [{"approve": fails}, {"hooks": {"before_tool": fails}, "approve": True}], ids=["approve", "hook"]
)
async def test_an_error_in_a_callback_is_raised_and_the_call_is_not_made(
    program: Program, options: dict[str, Any]
) -> None:
    program.says(WRITES, "again")
    async with program.session(**options) as session:
        with pytest.raises(ZeroDivisionError, match="mine"):
            await session.send("Write")

        assert not (program.folder / "b.txt").exists()
        assert (await session.send("Go on")).text == "again "


async def test_an_error_in_ask_is_raised(program: Program) -> None:
    program.says(ASKS)

    with pytest.raises(ZeroDivisionError):
        await program.query("Ask", ask=fails)


async def test_an_error_in_on_event_is_raised_by_the_opening_too(program: Program) -> None:
    with pytest.raises(ZeroDivisionError):
        async with program.session(on_event=fails):
            pass


async def test_the_agent_at_work_is_steered(program: Program) -> None:
    steered: list[bool] = []
    program.says(calls("read_file", '{"path": "a.txt"}'), "done")
    run: Any = None

    def before(_: dict[str, Any]) -> None:
        steered.append(run.steer("only the first line"))

    run = program.query("Read", hooks={"before_tool": before})
    assert not run.steer("too early")
    await run

    assert steered == [True]
    assert "only the first line" in json.dumps(program.messages())
    assert not run.steer("too late")


async def test_questions_are_announced_to_those_who_listen(program: Program) -> None:
    program.says(ASKS, "done")

    events = [event async for event in program.query("Ask", ask=lambda _: None)]

    assert [type(event) for event in events].count(QuestionEvent) == 1


async def test_an_error_at_the_very_end_is_raised_too(program: Program) -> None:
    program.says("one")

    with pytest.raises(ZeroDivisionError):
        await program.query("Say it", on_event=lambda event: fails() if isinstance(event, SessionEndedEvent) else None)


NO_APPROVALS: Any = [{"allow": "no"}, {"allow": 1}, {"allow": True, "scope": "ever"}, {"allow": True, "reason": 3}]


@pytest.mark.parametrize("said", ["no", 1, ["yes"], *(Approval(**given) for given in NO_APPROVALS)])
async def test_only_true_is_a_yes(program: Program, said: Any) -> None:
    program.says(WRITES, "done")

    with pytest.raises(UsageError, match=r"approve= returned .*: return True, False or an Approval"):
        await program.query("Write", approve=lambda _: said)

    assert not (program.folder / "b.txt").exists()


async def test_why_a_call_was_blocked_is_told_in_the_words_of_parameters(program: Program) -> None:
    (program.folder / "AGENTS.md").write_text("Be kind.")
    program.says(WRITES, "done")

    answer = await program.query("Write", check=False)

    assert answer.detail.endswith("rerun with approve=")
    assert answer.record["detail"] == answer.detail
    assert "give trust=True to load it" in answer.record["warnings"][0]


async def test_an_answer_is_a_text(program: Program) -> None:
    program.says(ASKS, "done")

    with pytest.raises(UsageError, match="ask= returned 3: a text or a list of texts"):
        await program.query("Ask", ask=lambda _: [3])  # pyright: ignore[reportArgumentType]  as a program may write it


async def on_event(_: Event) -> None: ...


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"approve": []}, r"approve=\[\]: give a function"),
        ({"ask": "x"}, "ask='x': give a function of the questions"),
        ({"on_event": on_event}, "on_event=.*: give a plain function"),
        ({"hooks": {"before_tool": "x"}}, "hooks=.*: give a mapping from events"),
        ({"hooks": [1]}, "hooks=.*: give a mapping from events"),
        ({"tools": len}, "tools=.*: give a list of functions"),
        ({"images": "a.png"}, "images='a.png': give a list of paths"),
        ({"add_dirs": "a"}, "add_dirs='a': give a list of paths"),
        ({"config": ["a"]}, "config=.*: give a mapping from dotted keys"),
        ({"instructions": 3}, "instructions=3: give a text"),
        ({"resume": ""}, "resume='': give the id of a session, or 'latest'"),
        ({"prompt": None}, "prompt=None: give a text"),
        ({"prompt": " "}, "prompt: there is nothing in it: say what is wanted"),
        ({"prompt": "a\udcff"}, "prompt=.*: give a text of characters that UTF-8 has"),
    ],
)
async def test_what_is_of_the_wrong_kind_is_told_before_anything_is_written(
    program: Program, wrong: Any, told: str
) -> None:
    options: Any = {"prompt": "Hi", **wrong}

    with pytest.raises(UsageError, match=told):
        await program.query(**options)

    assert not (program.home.host.home / "logs").exists()


async def test_none_leaves_an_option_out(program: Program) -> None:
    program.says("ok")
    left_out: Any = dict.fromkeys(("tools", "hooks", "images", "add_dirs", "config", "instructions", "resume"))

    assert (await program.query("Hi", **left_out)).text == "ok "


PROGRAM_ERRORS = [ExceptionGroup("two", [ValueError(1), KeyError(2)]), GeneratorExit(), KeyboardInterrupt()]


@pytest.mark.parametrize("error", PROGRAM_ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("callback", ["approve", "on_event", "post_agent_turn"])
def test_what_a_callback_raises_is_raised_as_it_is(program: Program, error: BaseException, callback: str) -> None:
    def fail(_: object) -> bool:
        raise error

    program.says(WRITES, "done")
    given: dict[str, Any] = {callback: fail} if callback != "post_agent_turn" else {"hooks": {callback: fail}}

    with pytest.raises(type(error)) as caught:
        program.query("Write", **given).wait()

    assert caught.value is error


def test_a_callback_that_calls_exit_is_raised_once_all_is_in_order(program: Program) -> None:
    said: list[Event] = []

    def leave(_: ApprovalRequest) -> bool:
        raise SystemExit(3)

    program.says(WRITES, "done")

    with pytest.raises(SystemExit):
        program.query("Write", approve=leave, on_event=said.append).wait()

    assert not (program.folder / "b.txt").exists()
    (ended,) = (event for event in said if isinstance(event, SessionEndedEvent))
    assert ended.outcome == "interrupted"
