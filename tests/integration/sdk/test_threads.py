"""Runs that are stopped, steered and cancelled from threads, from inside, and more than once."""

from __future__ import annotations

import asyncio  # noqa: TID251  programs use it
import threading
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any

import pytest
import sniffio

from ipc.events import ModelStartedEvent
from tests.fakes.model_server import Received, Reply
from tests.integration.sdk.conftest import STOPS_MIDWAY, Program, calls
from vibe.sdk import NotCompleted, Run, Session, Tool, UsageError, tool

SLEEPS = calls("bash", '{"command": "sleep 60"}')
Stop = Callable[[Run[Any], Session], object]
STOPS: list[Stop] = [lambda run, _: run.interrupt(), lambda _, session: session.interrupt()]


@pytest.mark.parametrize("stop", STOPS)
async def test_any_thread_may_interrupt(program: Program, stop: Stop) -> None:
    program.says(STOPS_MIDWAY, "again")

    async with program.session() as session:
        run = session.send("Hi")
        stopper = threading.Thread(target=lambda: program.server.asked.wait(30) and stop(run, session))
        stopper.start()
        with pytest.raises(NotCompleted) as caught:
            await asyncio.wait_for(run, 30)
        answer = await session.send("And now?")

    stopper.join()
    assert (caught.value.result.outcome, answer.text) == ("interrupted", "again ")


def test_a_tool_in_its_thread_steers_the_run_it_belongs_to(program: Program) -> None:
    heard: list[bool] = []

    def tell() -> str:
        heard.append(run.steer("use metres"))
        return "told"

    program.says(calls("tell"), "done")
    run = program.query("Hi", tools=[tell])

    assert (run.wait().text, heard) == ("done ", [True])
    assert program.messages()[-1] == {"role": "user", "content": "use metres"}


async def test_who_is_cancelled_twice_still_waits_for_the_end(program: Program) -> None:
    program.says(SLEEPS, "again")

    async with program.session(approve=True) as session:
        run = session.send("Hi")
        waiting = asyncio.ensure_future(run)
        await asyncio.to_thread(program.server.asked.wait, 30)
        for _ in range(2):
            waiting.cancel()
            await asyncio.sleep(0)
        begun = monotonic()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        with pytest.raises(NotCompleted, match="interrupted"):
            _ = run.result
        assert monotonic() - begun < 20
        assert (await session.send("And now?")).text == "again "


async def cancelled() -> str:
    """Wait for a task of its own that is cancelled."""
    inner = asyncio.ensure_future(asyncio.sleep(60))
    await asyncio.sleep(0)
    inner.cancel()
    await inner
    return ""


async def asked(_: object) -> str:
    """Do the same when asked."""
    return await cancelled()


CALLED: list[dict[str, Any]] = [{"approve": asked}, {"hooks": {"before_tool": asked}, "approve": True}]


async def test_what_is_cancelled_within_a_tool_is_a_failure_of_that_tool(program: Program) -> None:
    program.says(calls("cancelled"), "done")

    answer = await program.query("Hi", tools=[cancelled])

    assert answer.text == "done "
    assert "it broke off by itself: CancelledError" in program.messages()[-1]["content"]


@pytest.mark.parametrize("options", CALLED)
async def test_what_is_cancelled_within_a_callback_is_raised_as_an_error(
    program: Program, options: dict[str, Any]
) -> None:
    program.says(calls("write_file", '{"path": "n.txt", "content": "x"}'), Reply(text="done"))

    with pytest.raises(RuntimeError, match="it broke off by itself: CancelledError"):
        await program.query("Hi", **options)

    assert not (program.folder / "n.txt").exists()


@pytest.mark.parametrize("library", ["trio", "unknown"])
def test_a_loop_of_another_library_is_not_blocked(library: str, program: Program) -> None:
    said = sniffio.current_async_library_cvar.set(library)  # as that library does while it runs
    try:
        with pytest.raises(UsageError, match="in a thread of its own if a loop of another library runs"):
            program.query("Hi").wait()
    finally:
        sniffio.current_async_library_cvar.reset(said)
    program.says("one")
    assert program.query("Hi").wait().text == "one "


PART = "a tool or callback can't wait for the work it is part of"
Wait = Callable[[Session], Any]


async def sends(session: Session) -> None:
    await session.send("Inside")


async def gathers(session: Session) -> None:
    await asyncio.gather(session.send("Inside"), asyncio.sleep(0))


async def iterates(session: Session) -> None:
    async for _ in session.send("Inside"):
        pass


async def closes(session: Session) -> None:
    await session.close()


def in_a_thread(session: Session) -> None:
    session.send("Inside").wait()


@pytest.mark.parametrize("wait", [sends, gathers, iterates, closes, in_a_thread])
async def test_a_tool_that_would_wait_for_its_own_session_gets_an_error_at_once(program: Program, wait: Wait) -> None:
    program.says(calls("look"), "done", "again")

    def look() -> Any:
        return wait(session)

    async with program.session(tools=[look]) as session:
        answer = await asyncio.wait_for(session.send("Look"), 30)
        results = [one["content"] for one in program.messages() if one["role"] == "tool"]
        assert (answer.text, PART in results[0]) == ("done ", True)
        assert (await session.send("Go on")).text == "again "


async def test_a_tool_two_sessions_away_gets_that_error_too(program: Program) -> None:
    program.says(calls("ask_other"), calls("ask_back"), "heard", "done")
    told: list[str] = []

    async def ask_back() -> None:
        try:
            await session.send("Inside")
        except UsageError as error:
            told.append(str(error))

    async def ask_other() -> str:
        async with program.session(tools=[ask_back]) as other:
            return (await other.send("There")).text

    async with program.session(tools=[ask_other]) as session:
        answer = await asyncio.wait_for(session.send("Look"), 30)

    assert (answer.text, len(told)) == ("done ", 1)
    assert PART in told[0]


async def test_a_tool_that_waits_for_a_prompt_queued_behind_its_own_gets_that_error_too(program: Program) -> None:
    program.says(calls("look"), "done", "later")
    queued: list[Run[Any]] = []

    async def look() -> None:
        await queued[0]

    async with program.session(tools=[look]) as session:
        first = asyncio.ensure_future(session.send("Look"))
        queued.append(session.send("Then this"))
        second = asyncio.ensure_future(queued[0])
        answers = await asyncio.wait_for(asyncio.gather(first, second), 30)

    results = [one["content"] for one in program.messages() if one["role"] == "tool"]
    assert [one.text for one in answers] == ["done ", "later "]
    assert PART in results[0]


async def test_of_two_sessions_that_ask_each_other_at_once_one_gets_that_error(program: Program) -> None:
    def answer(request: Received) -> Reply:
        return Reply(text="heard") if request.body["messages"][-1]["role"] == "tool" else calls("ask_other")

    program.server.responder = answer
    both_ask, told, sessions = asyncio.Barrier(2), list[str](), list[Session]()

    async def ask(number: int) -> str:
        await both_ask.wait()
        try:
            return (await sessions[number].send("Inside")).text
        except UsageError as error:
            told.append(str(error))
            raise

    def asking(number: int) -> Tool[[], Awaitable[str]]:
        @tool(name="ask_other")
        async def ask_other() -> str:
            return "nothing" if told else await ask(number)

        return ask_other

    async with program.session(tools=[asking(1)]) as one, program.session(tools=[asking(0)]) as other:
        sessions += [one, other]
        answers = await asyncio.wait_for(asyncio.gather(one.send("Ask"), other.send("Ask")), 30)

    assert [answer.text for answer in answers] == ["heard ", "heard "]
    assert len(told) == 1
    assert PART in told[0]


async def test_a_task_that_outlives_the_run_in_which_it_began_may_wait_for_it_again(program: Program) -> None:
    program.says(calls("begin"), "done")
    ended, tasks = asyncio.Event(), list[asyncio.Task[str]]()

    async def later() -> str:
        await ended.wait()
        return (await run).text

    async def begin() -> None:
        tasks.append(asyncio.create_task(later()))

    run = program.query("Begin", tools=[begin])
    assert (await run).text == "done "
    ended.set()
    assert await tasks[0] == "done "


async def test_a_callback_that_waits_for_its_own_run_is_raised(program: Program) -> None:
    program.says(calls("write_file", '{"path": "b.txt", "content": "two"}'), "done")

    async def approve(_: object) -> bool:
        return bool(await run)

    run: Run[Any] = program.query("Write", approve=approve)
    with pytest.raises(UsageError, match=PART):
        await asyncio.wait_for(run, 30)


async def test_a_task_begun_by_on_event_may_wait_for_the_session(program: Program) -> None:
    program.says("one", "two")
    begun: list[asyncio.Future[Any]] = []

    def on_event(event: object) -> None:
        if not begun and isinstance(event, ModelStartedEvent):
            begun.append(asyncio.ensure_future(session.send("And then?")))

    async with program.session(on_event=on_event) as session:
        answer = await session.send("First")
        assert (answer.text, (await asyncio.wait_for(begun[0], 30)).text) == ("one ", "two ")
