"""Runs of a program: they start when first used, in a task of their own, and end in order however they are left."""

from __future__ import annotations

import asyncio  # noqa: TID251  programs use it
import gc
import json
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest
from anyio import create_task_group, fail_after, to_thread

from ipc.events import Event, PromptEndedEvent, SessionEndedEvent
from tests.e2e.test_images import PICTURE
from tests.fakes.model_server import Reply
from tests.integration.sdk.conftest import STOPS_MIDWAY, Program, calls
from vibe.sdk import Answer, NotCompleted, Run, Session, UsageError, query


def outcome_of(program: Program, session_id: str) -> str:
    folder = program.home.host.home / "logs" / "session" / session_id
    return json.loads((folder / "meta.json").read_text())["outcome"]


def test_a_script_has_an_answer_without_a_loop(program: Program) -> None:
    program.says("It greets.")

    answer = program.query("What does it do?").wait()

    assert (answer.text, answer.outcome, answer.turns) == ("It greets. ", "completed", 1)
    assert answer.record["result"] == "It greets. "
    assert answer.cost_usd == pytest.approx(answer.record["cost_usd"])


def test_a_run_waits_in_any_thread_and_leaves_its_loop_alone(program: Program) -> None:
    program.says("here", "there")
    mine = asyncio.new_event_loop()
    asyncio.set_event_loop(mine)
    texts = [program.query("a").wait().text]
    thread = threading.Thread(target=lambda: texts.append(program.query("b").wait().text))
    thread.start()
    thread.join()

    assert texts == ["here ", "there "]
    assert asyncio.get_event_loop() is mine
    mine.close()
    asyncio.set_event_loop(None)


async def test_a_blank_prompt_is_none_but_an_image_alone_is(program: Program) -> None:
    program.says("a picture", "again")
    picture = program.folder / "a.png"
    picture.write_bytes(PICTURE)
    async with program.session() as session:
        for blank in ("", " \n"):
            with pytest.raises(UsageError, match="no message to continue from: give a prompt"):
                await session.send(blank)
        assert (await session.send(" ", images=[picture])).text == "a picture "
        [part] = program.messages()[-1]["content"]
        again = (await session.send("\t")).text

    assert part["type"] == "image_url"
    assert again == "a picture "  # it goes on where it had ended
    assert len(program.server.requests) == 1


async def test_turns_are_those_of_the_prompt_alone(program: Program) -> None:
    program.says(calls("list_dir"), "one", "two", calls("list_dir"), "three")
    async with program.session() as session:
        turns = [(await session.send("a")).turns, (await session.send("b")).turns]
    turns.append((await program.query("c", resume=session.session_id)).turns)

    assert turns == [2, 1, 2]


def test_several_threads_wait_for_one_run(program: Program) -> None:
    program.says("one")
    run, together, texts = program.query("Say it"), threading.Barrier(3), list[str]()

    def wait() -> None:
        together.wait()
        texts.append(run.wait().text)

    threads = [threading.Thread(target=wait) for _ in range(together.parties)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert texts == ["one "] * 3


async def result_of(run: Run[Answer[None]]) -> Answer[None]:
    return await run


async def test_who_waits_in_another_thread_can_interrupt_the_run(program: Program) -> None:
    program.says(STOPS_MIDWAY)
    run = program.query("Say it", check=False)
    other = asyncio.create_task(result_of(run))
    await asyncio.to_thread(program.server.asked.wait)

    def stop() -> str:
        run.interrupt()
        return run.wait().outcome

    assert await asyncio.to_thread(stop) == "interrupted"
    assert (await other).outcome == "interrupted"


async def test_the_same_run_is_iterated_and_awaited(program: Program) -> None:
    program.says("one two")
    run = program.query("Say it")

    kinds = [type(event) async for event in run]

    assert kinds[-1] is SessionEndedEvent
    assert kinds.count(PromptEndedEvent) == 1
    assert (await run) is run.result
    assert run.result.text == "one two "
    with pytest.raises(UsageError, match="iterated once"):
        async for _ in run:
            pass


async def test_text_streams_in_pieces(program: Program) -> None:
    program.says("one two three")

    pieces = [piece async for piece in program.query("Say it").text()]

    assert len(pieces) > 1
    assert "".join(pieces) == "one two three "


async def test_an_answer_that_is_no_result_yet_is_said_in_words(program: Program) -> None:
    program.says("one")
    run = program.query("Say it")

    with pytest.raises(UsageError, match="await it first"):
        _ = run.result
    with pytest.raises(UsageError, match="write `await`"):
        run.wait()
    await run


def test_a_run_that_is_never_used_warns_and_does_nothing(program: Program) -> None:
    with pytest.warns(RuntimeWarning, match="nothing was done"):
        program.query("Say it")

    assert program.server.requests == []
    assert not (program.home.host.home / "logs").exists()


def test_without_an_asyncio_loop_an_await_says_so(program: Program) -> None:
    with pytest.raises(UsageError, match="needs an asyncio loop"):
        program.query("Say it").__await__().send(None)


async def test_a_run_at_work_in_another_loop_is_refused_in_words(program: Program) -> None:
    program.says("one")
    async with program.session() as session:
        with pytest.raises(UsageError, match="another event loop"):
            await asyncio.to_thread(lambda: session.send("Say it").wait())

        assert (await session.send("Say it")).text == "one "


async def test_prompts_of_a_session_wait_for_one_another(program: Program) -> None:
    program.says("first", "second")
    async with program.session() as session:
        one, other = await asyncio.gather(session.send("a"), session.send("b"))

    assert (one.text, other.text) == ("first ", "second ")
    assert [message["content"] for message in program.messages() if message["role"] == "user"] == ["a", "b"]
    assert outcome_of(program, session.session_id) == "completed"


async def test_a_session_that_is_not_open_says_what_to_do(program: Program) -> None:
    session = program.session()
    with pytest.raises(UsageError, match="use `async with"):
        await session.send("a")

    await session.open()
    await session.close()

    with pytest.raises(UsageError, match="go on with resume="):
        await session.send("a")
    with pytest.raises(UsageError, match="opened once"):
        await session.open()


async def test_a_session_goes_on_where_another_ended(program: Program) -> None:
    program.says("first", "second", "third")
    async with program.session() as session:
        await session.send("a")
    async with program.session(resume=session.session_id[:8]) as again:
        await again.send("b")
    async with program.session(resume="latest", fork=True) as copy:
        await copy.send("c")
    with pytest.raises(UsageError, match="fork=True: give resume="):
        await program.session(fork=True).open()

    assert again.session_id == session.session_id != copy.session_id
    assert [message["content"] for message in program.messages() if message["role"] == "user"] == ["a", "b", "c"]


async def test_what_did_not_complete_is_raised_with_its_answer_or_returned(program: Program) -> None:
    program.says(calls("read_file", '{"path": "a.txt"}'), calls("read_file", '{"path": "a.txt"}'))

    with pytest.raises(NotCompleted, match="limit: ") as caught:
        await program.query("Read it", max_turns=1)
    answer = await program.query("Read it", max_turns=1, check=False)

    assert (caught.value.result.outcome, caught.value.result.reason) == ("limit", "turns")
    assert (answer.outcome, answer.reason) == ("limit", "turns")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"workdir": "/nowhere"}, "workdir /nowhere: no such folder"),
        ({"max_turns": 0}, "max_turns=0"),
        ({"images": ["gone.png"]}, "gone.png"),
        ({"model": "nobody"}, "nobody"),
        ({"approve": "all"}, "approve='all'"),
        ({"resume": "f00"}, "f00"),
    ],
)
async def test_wrong_arguments_are_told_before_anything_is_written(
    program: Program, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        await program.query("Say it", **options)

    assert not (program.home.host.home / "logs").exists()


def test_a_word_that_is_no_option_is_refused_as_python_does() -> None:
    with pytest.raises(TypeError, match="modle"):
        query("Say it", modle="m")  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match="modle"):
        Session(modle="m")  # pyright: ignore[reportCallIssue]


async def test_a_prompt_is_sent_as_it_is_unless_it_says_so(program: Program) -> None:
    program.says("one", "two")
    async with program.session() as session:
        await session.send("/nobody @a.txt")
        assert program.messages()[-1]["content"] == "/nobody @a.txt"
        await session.send("See @a.txt", expand=True)

    assert "one\n" in program.messages()[-1]["content"]


Leave = Callable[[Run[Answer[None]], threading.Event], Awaitable[None]]
"""Leaves a run once its model was asked, which the event tells."""


def once_set(event: threading.Event, act: Callable[[], object]) -> None:
    """Call ``act`` in this loop once the event is set."""
    loop = asyncio.get_running_loop()
    threading.Thread(target=lambda: event.wait(60) and loop.call_soon_threadsafe(act)).start()


async def in_an_anyio_scope(run: Run[Answer[None]], asked: threading.Event) -> None:
    with anyio.CancelScope() as scope:
        once_set(asked, scope.cancel)
        await run
    assert scope.cancelled_caught


async def in_a_timeout(run: Run[Answer[None]], asked: threading.Event) -> None:
    timeout = asyncio.timeout(None)
    once_set(asked, lambda: timeout.reschedule(0))
    with pytest.raises(TimeoutError):
        async with timeout:
            await run


async def by_break(run: Run[Answer[None]], _asked: threading.Event) -> None:
    async for _ in run.text():
        break


async def by_an_error(run: Run[Answer[None]], _asked: threading.Event) -> None:
    async def failing() -> None:
        async for _ in run.text():
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await failing()


async def by_closing(run: Run[Answer[None]], _asked: threading.Event) -> None:
    stream = run.text()
    await anext(stream)
    await stream.aclose()


async def cancelled_while_iterating(run: Run[Answer[None]], asked: threading.Event) -> None:
    with anyio.CancelScope() as scope:
        once_set(asked, scope.cancel)
        async for _ in run:
            pass


async def by_interrupting(run: Run[Answer[None]], _asked: threading.Event) -> None:
    async for _ in run.text():
        run.interrupt()
        break
    with pytest.raises(NotCompleted, match="interrupted"):
        await run


@pytest.mark.parametrize(
    "leave",
    [
        in_an_anyio_scope,
        in_a_timeout,
        by_break,
        by_an_error,
        by_closing,
        cancelled_while_iterating,
        by_interrupting,
    ],
)
async def test_left_early_it_is_interrupted_and_the_session_goes_on(program: Program, leave: Leave) -> None:
    program.says(STOPS_MIDWAY, "again")
    async with program.session() as session:
        await leave(session.send("Count"), program.server.asked)
        answer = await session.send("Go on")

    assert answer.text == "again "
    assert program.server.disconnected.wait(10)


@pytest.mark.parametrize("leave", [in_an_anyio_scope, in_a_timeout, by_closing])
async def test_a_session_that_was_cut_off_is_kept_as_interrupted(program: Program, leave: Leave) -> None:
    program.says(STOPS_MIDWAY)
    async with program.session() as session:
        await leave(session.send("Count"), program.server.asked)

    assert outcome_of(program, session.session_id) == "interrupted"


async def test_one_that_waits_its_turn_can_be_given_up(program: Program) -> None:
    program.says(STOPS_MIDWAY, "later")
    async with program.session() as session:
        first, second = session.send("Count", check=False), session.send("Nothing", check=False)
        stream = first.text()
        await anext(stream)
        with anyio.move_on_after(0.1):
            await second
        assert second.result.outcome == "interrupted"
        await stream.aclose()
        assert (await session.send("Say it")).text == "later "

    assert not any("Nothing" in str(request.body) for request in program.server.requests)


async def test_generators_that_stream_are_dropped_a_hundred_times(
    program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, about: complaints.append(about))

    async def streamed(session: Session) -> AsyncIterator[str]:
        async for piece in session.send("Count").text():
            yield piece

    async with program.session() as session:
        before = len(asyncio.all_tasks())
        for _ in range(100):
            program.says(STOPS_MIDWAY)
            stream = streamed(session)
            await asyncio.create_task(anext(stream))  # pyright: ignore[reportArgumentType]
            del stream
        program.says("the end")
        assert (await session.send("Stop")).text == "the end "
        assert len(asyncio.all_tasks()) <= before

    gc.collect()
    assert complaints == []
    assert [record for record in caplog.records if record.name == "asyncio"] == []


async def test_errors_are_raised_as_they_are_and_not_in_a_group(program: Program) -> None:
    def fails(event: Event) -> None:
        if isinstance(event, PromptEndedEvent):
            os.environ["MINE OF THE TEST"]

    program.says("one", "two")
    with pytest.raises(KeyError, match="MINE OF THE TEST"):
        await program.query("Say it", on_event=fails)
    with pytest.raises(KeyError, match="MINE OF THE TEST"):
        async for _ in program.query("Say it", on_event=fails):
            pass


NAME = ContextVar("NAME", default="nobody")


async def test_callbacks_see_the_variables_of_the_opening(program: Program) -> None:
    program.says("one")
    seen: set[str] = set()
    NAME.set("opening")
    session = program.session(on_event=lambda _: seen.add(NAME.get()))
    async with session:
        NAME.set("sending")
        await session.send("Say it")

    assert seen == {"opening"}


def test_ctrl_c_under_wait_interrupts_and_leaves_all_in_order(program: Program) -> None:
    program.says(STOPS_MIDWAY)
    ended: list[Event] = []
    run = program.query("Count", on_event=ended.append)
    threading.Thread(target=lambda: (program.server.asked.wait(60), os.kill(os.getpid(), signal.SIGINT))).start()

    with pytest.raises(KeyboardInterrupt):
        run.wait()

    assert isinstance(ended[-1], SessionEndedEvent)
    assert ended[-1].outcome == "interrupted"


def is_running(word: str) -> bool:
    """Return True if a process on this machine runs ``sleep`` with this argument."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has just ended
            if f"sleep\0{word}".encode() in path.read_bytes():
                return True
    return False


async def test_a_cancelled_await_returns_once_the_processes_are_gone(program: Program) -> None:
    seconds = f"6{uuid4().int % 10**8}"
    program.says(calls("bash", json.dumps({"command": f"sleep {seconds}"})), "again")
    began = 0.0
    async with program.session(approve=True) as session:
        async with create_task_group() as group:
            group.start_soon(awaited, session.send("Sleep"))
            with fail_after(60):
                while not await to_thread.run_sync(is_running, seconds):  # noqa: ASYNC110  another process
                    await anyio.sleep(0.01)
            began = time.monotonic()
            group.cancel_scope.cancel()
        took = time.monotonic() - began

        assert not await to_thread.run_sync(is_running, seconds)
        assert took < 10
        assert (await session.send("Go on")).text == "again "


async def awaited(run: Run[Answer[None]]) -> None:
    await run


async def test_no_event_is_lost_or_doubled(program: Program) -> None:
    program.says(Reply(text=" ".join(map(str, range(2_000)))))
    told: list[Event] = []

    taken = [event async for event in program.query("Count", on_event=told.append)]

    assert taken == told
    assert len({event.event_id for event in taken}) == len(taken) > 1_000


async def test_many_queries_at_once_leave_nothing(program: Program) -> None:
    program.says(*["hello"] * 21)
    await program.query("Warm up")
    gc.collect()
    tasks, before = len(asyncio.all_tasks()), descriptors()

    answers = await asyncio.gather(*(program.query("Hi") for _ in range(20)))

    assert {answer.text for answer in answers} == {"hello "}
    assert len({answer.session_id for answer in answers}) == 20
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == tasks
    gc.collect()
    with fail_after(60):
        while descriptors() > before:  # noqa: ASYNC110  the server's threads close their ends
            await anyio.sleep(0.01)


def descriptors() -> int:
    """Return the number of open descriptors of this process."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_a_session_that_its_loop_leaves_open_is_interrupted(program: Program) -> None:
    program.says("one")
    session = program.session()

    async def forgets() -> None:
        await session.open()
        await session.send("Hi")

    asyncio.run(forgets())

    assert outcome_of(program, session.session_id) == "interrupted"
