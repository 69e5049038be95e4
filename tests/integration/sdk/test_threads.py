"""Runs that are stopped, steered and cancelled from threads, from inside, and more than once."""

from __future__ import annotations

import asyncio  # noqa: TID251  programs use it
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

import pytest

from tests.fakes.model_server import Reply
from tests.integration.sdk.conftest import STOPS_MIDWAY, Program, calls
from vibe.sdk import NotCompleted, Run, Session

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
