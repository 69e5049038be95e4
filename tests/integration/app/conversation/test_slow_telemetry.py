"""A receiver of telemetry that answers late or never: what else the process does goes on.

Covers ``vibe.app.telemetry``, ``vibe.app.engine.event_publishing``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial

import anyio
import pytest
from anyio import to_thread

from tests.fakes.model_server import Reply
from tests.fakes.otlp_receiver import Received, otlp_receiver
from tests.integration.app.conversation.conftest import Rig
from vibe.app.conversation.runtime import Runtime


@pytest.fixture
def received(rig: Rig) -> Iterator[Received]:
    with otlp_receiver() as receiver:
        config = rig.host.home / "config.toml"
        config.write_text(config.read_text() + f'[telemetry]\notlp_endpoint = "{receiver.address}"\n')
        yield receiver
        receiver.answers.set()


async def test_others_get_their_turn_while_a_record_or_an_end_waits_for_the_receiver(
    rig: Rig, received: Received
) -> None:
    rig.server.enqueue(Reply(text="hello"), Reply(text="bye"))

    async def answer_once_asked() -> None:
        await rig.until(lambda: len(received.headers) > 0)
        received.answers.set()

    async with Runtime(rig.host) as runtime:
        conversation = await runtime.open_conversation(rig.opening(), rig.seat)
        for is_last in (False, True):
            answer = await conversation.send("hi")
            record = partial(answer.record, conversation.session_id, conversation.channel, ())
            waits = conversation.aclose if is_last else partial(to_thread.run_sync, record)
            received.headers.clear()
            received.answers.clear()
            async with anyio.create_task_group() as others:
                others.start_soon(answer_once_asked)
                await waits()
    assert conversation.channel.heard.after(()) == []
    assert received.named("invoke_agent")


async def test_a_receiver_that_takes_nothing_keeps_no_thread_busy(rig: Rig, received: Received) -> None:
    received.status = 400
    rig.server.enqueue(Reply(text="hello"))
    before = set(threading.enumerate())
    async with Runtime(rig.host) as runtime:
        conversation = await runtime.open_conversation(rig.opening(), rig.seat)
        await conversation.send("hi")
        [warning] = await to_thread.run_sync(conversation.channel.warnings)
        await conversation.aclose()
    assert f"{received.address} takes no spans" in warning
    assert [thread.name for thread in threading.enumerate() if thread not in before and "Otel" in thread.name] == []
