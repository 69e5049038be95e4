from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from ipc.events import AssistantEvent, ErrorEvent, ToolResultEvent, UsageEvent, WarningEvent
from subagents.agent.budget import Limits
from tests.fakes.engine import Bench
from tests.fakes.models import answer, calling
from vibe.core import budget
from vibe.core.llm.errors import (
    ModelAccessError,
    ModelError,
    ModelProtocolError,
    ModelTransportError,
)
from vibe.core.llm.port import FinishReason
from vibe.core.messages import AssistantMessage, Outcome, ToolCall, ToolMessage, Usage, UserMessage
from vibe.core.middleware.limits import SUMMARISE, WRAP_UP
from vibe.core.middleware.port import HOST_NOTICE, Middleware, TurnContext, Verdict
from vibe.core.session.folder import Transcript
from vibe.core.tools.permissions import ApprovalMode

WRITE = ("write_file", {"path": "a.txt", "content": "hello\n"})
READ = ("read_file", {"path": "a.txt"})


async def test_tools_are_run_until_the_model_asks_for_no_more(tmp_path: Path) -> None:
    bench = Bench(root=tmp_path, answers=[calling(WRITE), calling(READ), answer("written")])

    result = await bench.loop.act("write a file")

    assert (result.outcome, result.text, result.turns) == (Outcome.COMPLETED, "written", 3)
    assert result.files_changed == ("a.txt",)
    assert result.usage == Usage(30, 30, 0, 3)
    assert (tmp_path / "a.txt").read_text() == "hello\n"
    last_request = bench.model.requests[-1].messages
    assert [type(message).__name__ for message in last_request] == [
        "SystemMessage",
        "UserMessage",
        "AssistantMessage",
        "ToolMessage",
        "AssistantMessage",
        "ToolMessage",
    ]
    assert len(bench.events(AssistantEvent)) == len(bench.events(UsageEvent)) == 3


async def test_requests_share_a_byte_stable_prefix(tmp_path: Path) -> None:
    bench = Bench(root=tmp_path, answers=[calling(WRITE), calling(READ), answer("done")])

    await bench.loop.act("go")

    first, second, third = bench.model.requests
    assert list(second.messages)[: len(first.messages)] == list(first.messages)
    assert list(third.messages)[: len(second.messages)] == list(second.messages)
    assert first.tools == second.tools == third.tools


async def test_nobody_to_ask_makes_the_outcome_blocked(tmp_path: Path) -> None:
    bench = Bench(root=tmp_path, mode=ApprovalMode.ASK, answers=[calling(WRITE), answer("I could not write")])

    result = await bench.loop.act("write")

    assert (result.outcome, result.reason, result.text) == (Outcome.BLOCKED, "blocked", "I could not write")
    assert [denial.by for denial in result.denied] == ["headless"]
    assert not (tmp_path / "a.txt").exists()


async def test_a_limit_on_turns_ends_it(tmp_path: Path) -> None:
    bench = Bench(root=tmp_path, max_turns=2, answers=[calling(WRITE), calling(READ), answer("never")])

    result = await bench.loop.act("go")

    assert (result.outcome, result.reason, result.turns) == (Outcome.LIMIT, "turns", 2)


async def test_a_limit_on_tokens_ends_it_before_the_call_that_would_pass_it(tmp_path: Path) -> None:
    bench = Bench(root=tmp_path, limits=Limits(max_tokens=100), answers=[answer("never")])

    result = await bench.loop.act("word " * 500)

    assert (result.outcome, result.reason) == (Outcome.LIMIT, "budget")
    assert "max_tokens 100" in result.detail
    assert bench.model.requests == []


async def test_a_nearly_used_budget_is_said_to_the_model_once(tmp_path: Path) -> None:
    used = Usage(50_000, 31_000, 0, 1)
    bench = Bench(
        root=tmp_path,
        limits=Limits(max_tokens=100_000),
        answers=[calling(WRITE), calling(READ), answer("done", usage=Usage(1, 1, 0, 1))],
    )
    bench.account.book(used, 0.0)

    await bench.loop.act("go")

    notice = HOST_NOTICE + WRAP_UP.format(ending=SUMMARISE)
    notices = [m for m in bench.transcript.messages if isinstance(m, UserMessage) and m.content == notice]
    assert len(notices) == 1


async def test_the_same_call_with_the_same_result_is_told_to_the_model_and_then_a_loop(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    bench = Bench(root=tmp_path, answers=[calling(READ)] * 8)

    result = await bench.loop.act("go")

    assert (result.outcome, result.reason, result.turns) == (Outcome.FAILED, "loop", 6)
    told = [m.content for m in bench.model.requests[3].messages if isinstance(m, UserMessage)][1:]
    assert len(told) == 1
    assert "the result was the same each time" in told[0]
    assert [event.code for event in bench.events(WarningEvent) if isinstance(event, WarningEvent)] == ["loop"]


async def test_who_heeds_that_nothing_changes_goes_on(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    bench = Bench(root=tmp_path, answers=[*[calling(READ)] * 3, calling(("list_dir", {})), answer("done")])

    assert (await bench.loop.act("go")).outcome is Outcome.COMPLETED


async def test_the_same_call_with_other_results_is_no_loop(tmp_path: Path) -> None:
    growing = ("bash", {"command": "echo x >> log; cat log"})
    bench = Bench(root=tmp_path, answers=[*[calling(growing)] * 7, answer("done")])

    assert (await bench.loop.act("go")).outcome is Outcome.COMPLETED


async def test_an_empty_answer_is_asked_for_again_once(tmp_path: Path) -> None:
    bench = Bench(root=tmp_path, answers=[answer(""), answer("here")])

    assert (await bench.loop.act("go")).text == "here"


async def test_two_empty_answers_fail(tmp_path: Path) -> None:
    bench = Bench(root=tmp_path, answers=[answer(" "), answer("\n"), answer("never")])

    result = await bench.loop.act("go")

    assert (result.outcome, result.reason) == (Outcome.FAILED, "empty")


async def test_a_call_that_was_cut_at_the_output_limit_is_not_run(tmp_path: Path) -> None:
    torn = calling(("write_file", '{"path": "a.txt", "content": "hel'), finish=FinishReason.LENGTH)
    bench = Bench(root=tmp_path, answers=[torn, calling(WRITE), answer("done")])

    result = await bench.loop.act("go")

    assert result.outcome is Outcome.COMPLETED
    assert (tmp_path / "a.txt").read_text() == "hello\n"
    told = bench.model.requests[1].messages[-1]
    assert isinstance(told, ToolMessage)
    assert "cut at the output limit" in told.content


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (("write_file", "{torn"), "JSON"),
        (("write_file", '{"path": "a.txt"}'), "content"),
        (("wirte_file", "{}"), "write_file"),
    ],
)
async def test_a_call_that_cannot_be_run_is_told_to_the_model(tmp_path: Path, call: tuple[str, str], said: str) -> None:
    bench = Bench(root=tmp_path, answers=[calling(call), answer("understood")])

    result = await bench.loop.act("go")

    assert result.outcome is Outcome.COMPLETED
    told = bench.model.requests[1].messages[-1]
    assert isinstance(told, ToolMessage)
    assert told.status == "error"
    assert said in told.content


@dataclass(frozen=True)
class Fault:
    error: ModelError
    outcome: Outcome
    reason: str


@pytest.mark.parametrize(
    "fault",
    [
        Fault(ModelAccessError("no", status=401), Outcome.FAILED, "provider"),
        Fault(ModelAccessError("no credit", status=402), Outcome.LIMIT, "provider"),
        Fault(ModelProtocolError("garbage"), Outcome.FAILED, "model"),
        Fault(ModelTransportError("refused"), Outcome.FAILED, "model"),
    ],
    ids=lambda fault: type(fault.error).__name__,
)
async def test_a_model_that_fails_is_a_result_with_its_reason(tmp_path: Path, fault: Fault) -> None:
    bench = Bench(root=tmp_path, answers=[calling(WRITE), fault.error])

    result = await bench.loop.act("go")

    assert (result.outcome, result.reason, result.error) == (fault.outcome, fault.reason, fault.error)
    assert result.usage.calls == 1
    assert len(bench.events(ErrorEvent)) == 1


async def test_a_failed_call_gives_its_reservation_back(tmp_path: Path) -> None:
    bench = Bench(root=tmp_path, limits=Limits(max_tokens=10_000), answers=[ModelTransportError("refused")])

    await bench.loop.act("go")

    with anyio.fail_after(60):
        reservation = await bench.account.reserve(bench.model.requests[0].model, 10, 100_000)
    assert reservation.max_completion_tokens == 9_990


async def test_an_agent_that_waits_for_room_says_so_and_goes_on_when_there_is_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "PATIENCE_SECONDS", 0.01)
    bench = Bench(root=tmp_path, limits=Limits(max_tokens=10_000), answers=[answer("done")])
    held = await bench.account.reserve(bench.model_config, 10, 9_000)
    outcomes: list[Outcome] = []

    async def work() -> None:
        outcomes.append((await bench.loop.act("go")).outcome)

    async with anyio.create_task_group() as group:
        group.start_soon(work)
        with anyio.fail_after(60):
            while not bench.events(WarningEvent):  # noqa: ASYNC110  a list announces nothing
                await anyio.sleep(0.005)
        assert bench.model.requests == []
        held.release()

    codes = [event.code for event in bench.events(WarningEvent) if isinstance(event, WarningEvent)]
    assert (codes, outcomes) == ([budget.WAITING, budget.WAITED], [Outcome.COMPLETED])
    assert (await bench.account.reserve(bench.model_config, 10, 100_000)).max_completion_tokens > 9_000


class StopAfterFirst:
    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    @property
    def requested(self) -> bool:
        return len(self._bench.model.requests) >= 1


async def test_a_stop_is_heard_at_the_end_of_a_turn_and_the_work_goes_on_from_there(tmp_path: Path) -> None:
    bench = Bench(root=tmp_path, answers=[calling(WRITE)])

    stopped = await bench.loop.act("go", StopAfterFirst(bench))
    later = Bench(root=tmp_path, answers=[answer("done")], transcript=Transcript(bench.transcript.messages))
    resumed = await later.loop.resume()

    assert (stopped.outcome, stopped.turns) == (Outcome.INTERRUPTED, 1)
    assert (resumed.outcome, resumed.text, resumed.turns) == (Outcome.COMPLETED, "done", 2)
    assert resumed.usage == Usage(20, 20, 0, 2)


async def test_a_call_that_was_running_when_the_process_died_is_told_as_interrupted_and_not_run_again(
    tmp_path: Path,
) -> None:
    call = ToolCall("1", "write_file", '{"path": "a.txt", "content": "x"}')
    before = Transcript([UserMessage("go"), AssistantMessage("", (call,))])

    bench = Bench(root=tmp_path, answers=[answer("I will check")], transcript=before)
    await bench.loop.resume()

    told = bench.model.requests[0].messages[-1]
    assert isinstance(told, ToolMessage)
    assert told.status == "interrupted"
    assert not (tmp_path / "a.txt").exists()


async def test_a_conversation_that_had_ended_is_not_gone_on_with(tmp_path: Path) -> None:
    transcript = Transcript([UserMessage("go"), AssistantMessage("all done", usage=Usage(1, 1, 0, 1))])

    result = await Bench(root=tmp_path, answers=[], transcript=transcript).loop.resume()

    assert (result.outcome, result.text) == (Outcome.COMPLETED, "all done")


async def test_cancelling_in_the_middle_of_a_tool_leaves_a_history_without_dangling_calls(tmp_path: Path) -> None:
    bench = Bench(root=tmp_path, answers=[calling(("bash", {"command": "touch started; sleep 600"}), READ)])

    async with anyio.create_task_group() as group:
        group.start_soon(bench.loop.act, "go")
        with anyio.fail_after(120):
            while not await anyio.Path(tmp_path / "started").exists():  # noqa: ASYNC110  a file can only be polled
                await anyio.sleep(0.01)
        group.cancel_scope.cancel()

    results = [message for message in bench.transcript.messages if isinstance(message, ToolMessage)]
    assert [message.status for message in results] == ["cancelled", "cancelled"]
    assert bench.transcript.close_dangling_calls() == 0
    statuses = [event.status for event in bench.events(ToolResultEvent) if isinstance(event, ToolResultEvent)]
    assert set(statuses) == {"cancelled"}


WRITTEN = '<tool_call>\n{"name": "write_file", "arguments": {"path": "a.txt", "content": "x"}}\n</tool_call>'


async def test_a_call_written_as_text_is_asked_for_again(tmp_path: Path) -> None:
    bench = Bench(root=tmp_path, answers=[answer(f"I will.\n{WRITTEN}"), calling(WRITE), answer("done")])

    result = await bench.loop.act("write a file")

    assert (result.outcome, result.text) == (Outcome.COMPLETED, "done")
    notice = bench.model.requests[1].messages[-1]
    assert notice.content.startswith("Notice from the host: nothing was run: your last answer is a tool call written")
    assert "'write_file'" in notice.content


async def test_calls_written_as_text_twice_in_a_row_fail_with_a_sentence(tmp_path: Path) -> None:
    bench = Bench(root=tmp_path, answers=[answer(WRITTEN), answer(WRITTEN), answer("never")])

    result = await bench.loop.act("write a file")

    assert (result.outcome, result.reason, result.turns) == (Outcome.FAILED, "model", 2)
    assert "wrote its call of 'write_file' as text, twice, so nothing was run" in result.detail
    again = await Bench(root=tmp_path, answers=[answer("never")], transcript=bench.transcript).loop.resume()
    assert again.outcome is Outcome.FAILED


async def test_each_call_written_as_text_is_asked_for_again_if_calls_were_made_between(tmp_path: Path) -> None:
    answers = [answer(WRITTEN), calling(WRITE), answer(WRITTEN), calling(READ), answer("done")]
    result = await Bench(root=tmp_path, answers=answers).loop.act("write a file")

    assert (result.outcome, result.text) == (Outcome.COMPLETED, "done")


async def test_a_saved_conversation_that_ends_with_a_written_call_is_not_taken_for_answered(tmp_path: Path) -> None:
    transcript = Transcript([UserMessage("go"), AssistantMessage(WRITTEN)])
    bench = Bench(root=tmp_path, answers=[answer("done")], transcript=transcript)

    assert (await bench.loop.resume()).text == "done"


async def test_a_prompt_that_does_not_fit_is_refused_before_any_call(tmp_path: Path) -> None:
    bench = Bench(root=tmp_path, answers=[answer("fine")])
    size = bench.model_config.context_size

    result = await bench.loop.act("word " * size)

    assert (result.outcome, result.reason) == (Outcome.LIMIT, "context")
    assert f"({5 * size:,} characters), and {bench.model_config.key} takes {size:,}" in result.detail
    assert not bench.model.requests
    assert not bench.transcript.messages
    assert (await bench.loop.act("hi")).text == "fine"


async def test_words_said_meanwhile_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    said: list[bool] = []

    class Steering(Middleware):
        async def before_turn(self, context: TurnContext) -> list[Verdict]:  # noqa: ARG002  the port
            said.extend([bench.loop.steer("x" * 5 * bench.model_config.context_size), bench.loop.steer("short")])
            return []

    bench = Bench(
        root=tmp_path, answers=[answer("one"), answer("two"), answer("3")], middleware=(Steering(),), max_turns=1
    )
    await bench.loop.act("go")
    assert said[:2] == [False, True]
