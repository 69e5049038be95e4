"""Every event arrives exactly once and in order: live, late, slow, across gaps and restarts, in one process."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from anyio import to_thread

import ipc
from ipc._nng import ReqSocket, SubSocket
from ipc.bus import EventBus, event_bus
from ipc.codec import EventRecord, Heartbeat, ReplayRequest, decode_answer, decode_frame, encode_event, encode_request
from ipc.errors import EventsLostError, IpcError, UnknownSourceError
from ipc.events import PlanPausedEvent, UserMessageEvent, WarningEvent
from ipc.registry import RunInfo
from ipc.sink import StampingSink
from ipc.subscriber import EndReason, Subscription
from tests.fakes.events import examples
from tests.fakes.ports import ports_in_a_row

INFO = RunInfo(cwd="/", title="a test", plan_id="plan-7")


class Run:
    """A bus with its stamping sink."""

    def __init__(self, bus: EventBus) -> None:
        self.bus = bus
        self.sink = StampingSink(bus.entry.source, bus)

    def publish(self, count: int) -> None:
        """Publish ``count`` messages."""
        for _ in range(count):
            self.sink.publish(UserMessageEvent(text="x" * 200))

    async def close(self) -> None:
        """Close the bus in a thread."""
        await to_thread.run_sync(self.bus.close)


@asynccontextmanager
async def running(home: Path, source: str = "run-1", address: str | None = None) -> AsyncGenerator[Run]:
    async with event_bus(partial(EventBus, home, source=source, info=INFO, address=address)) as bus:
        yield Run(bus)


async def take(subscription: Subscription, count: int) -> list[EventRecord]:
    with anyio.fail_after(120):
        return [await anext(subscription) for _ in range(count)]


async def rest(subscription: Subscription) -> list[int]:
    with anyio.fail_after(120):
        return [record.seq async for record in subscription]


def seqs(records: list[EventRecord]) -> list[int]:
    return [record.seq for record in records]


async def test_live_events_come_whole_and_in_order(vibe_home: Path) -> None:
    async with running(vibe_home) as run, ipc.subscribe("run-1", home=vibe_home) as records:
        published = examples()
        for event in published:
            run.sink.publish(event)
        got = await take(records, len(published))

    assert seqs(got) == list(range(1, len(published) + 1))
    assert [type(record.event) for record in got] == [type(event) for event in published]
    assert all(record.source == "run-1" for record in got)


async def test_a_late_subscriber_gets_everything_from_the_beginning(vibe_home: Path) -> None:
    async with running(vibe_home) as run:
        run.publish(5000)
        async with ipc.subscribe("run-1", home=vibe_home) as records:
            run.publish(100)
            assert seqs(await take(records, 5100)) == list(range(1, 5101))
            await run.close()
            assert await rest(records) == []
            assert records.ended is EndReason.FINISHED


async def test_after_and_now_choose_where_to_start(vibe_home: Path) -> None:
    async with running(vibe_home) as run:
        run.publish(10)
        async with (
            ipc.subscribe("run-1", home=vibe_home, after=7) as resumed,
            ipc.subscribe("run-1", home=vibe_home, after="now") as fresh,
        ):
            run.publish(2)
            assert seqs(await take(resumed, 5)) == [8, 9, 10, 11, 12]
            assert seqs(await take(fresh, 2)) == [11, 12]


async def test_topics_filter_without_losing_count(vibe_home: Path) -> None:
    async with running(vibe_home) as run:
        run.publish(3)
        run.sink.publish(PlanPausedEvent(plan_id="p", reason="early"))
        async with ipc.subscribe("run-1", home=vibe_home, topics=["plan.", "warning|"]) as records:
            run.publish(3)
            run.sink.publish(WarningEvent(code="c", message="late"))
            got = await take(records, 2)

    assert [(record.seq, record.topic) for record in got] == [(4, "plan.paused|p|-"), (8, "warning|-|-")]


async def test_a_flood_past_a_tiny_buffer_is_filled_by_replay(vibe_home: Path) -> None:
    slow = Subscription("run-1", home=vibe_home)
    slow.buffered = 16
    async with running(vibe_home) as run, slow as records:
        run.publish(1)
        await take(records, 1)
        run.publish(20000)
        got = await take(records, 20000)

    assert seqs(got) == list(range(2, 20002))
    assert records.replayed > 0


async def test_a_lost_tail_is_shown_by_the_heartbeat(vibe_home: Path) -> None:
    async with running(vibe_home) as run, ipc.subscribe("run-1", home=vibe_home) as records:
        run.publish(1)
        await take(records, 1)
        for seq in (2, 3):
            body = encode_event(UserMessageEvent(seq=seq, source="run-1", text="recorded, but lost on its way"))
            run.bus.journal.append(body)  # reaches only the journal, so one message is surely lost
        assert seqs(await take(records, 2)) == [2, 3]


async def test_the_last_heartbeat_says_that_it_is_the_last(vibe_home: Path) -> None:
    async with running(vibe_home) as run:
        listener = SubSocket(run.bus.entry.events)
        beats: list[Heartbeat] = []
        with anyio.fail_after(120):
            while not beats or not beats[-1].end:
                await listener.wait()
                decoded = [decode_frame(frame) for frame in listener.receive(100)]
                beats += [beat for beat in decoded if isinstance(beat, Heartbeat)]
                if len(beats) == 1:
                    run.publish(3)
                    await run.close()
        listener.close()

    assert beats[-1] == Heartbeat(source="run-1", seq=3, end=True)


async def test_one_event_larger_than_a_batch_is_replayed(vibe_home: Path) -> None:
    async with running(vibe_home) as run:
        run.sink.publish(UserMessageEvent(text="y" * 3_000_000))
        run.publish(1)
        async with ipc.subscribe("run-1", home=vibe_home) as records:
            got = await take(records, 2)

    assert [len(record.body) > 3_000_000 for record in got] == [True, False]


async def test_awaiting_an_event_can_be_cancelled_and_resumed(vibe_home: Path) -> None:
    async with running(vibe_home) as run, ipc.subscribe("run-1", home=vibe_home) as records:
        for number in range(1, 20):
            with anyio.move_on_after(0.01) as scope:
                await anext(records)
            assert scope.cancelled_caught
            run.publish(1)
            assert seqs(await take(records, 1)) == [number]


async def test_cancelling_in_the_midst_of_a_replay_loses_nothing(vibe_home: Path) -> None:
    async with running(vibe_home) as run:
        run.publish(30000)
        async with ipc.subscribe("run-1", home=vibe_home) as records:
            got: list[int] = []
            with anyio.fail_after(120):
                while len(got) < 30000:
                    with anyio.move_on_after(0.002):
                        async for record in records:
                            got.append(record.seq)
                            if not record.seq % 500:
                                await anyio.lowlevel.checkpoint()

    assert got == list(range(1, 30001))


async def test_the_journal_of_an_ended_run_is_read(vibe_home: Path) -> None:
    async with running(vibe_home) as run:
        run.publish(20)
        journal = Path(run.bus.entry.journal)

    for target in ("run-1", "run", "plan-7", journal, str(journal)):
        async with ipc.subscribe(target, home=vibe_home, after=5) as records:
            assert await rest(records) == list(range(6, 21))
            assert (records.ended, records.source) == (EndReason.FINISHED, "run-1")
    async with ipc.subscribe("run-1", home=vibe_home, after="now") as records:
        assert await rest(records) == []


def spoil(journal: Path, damage: str) -> int:
    """Damage a journal after some lines, and return their number."""
    lines = journal.read_bytes().splitlines(keepends=True)
    kept = [] if damage == "empty" else lines[:6]
    left = {"zeros": [b"\0" * 40 + b"\n", *lines[7:]], "torn": [lines[6][:-30]], "gap": lines[8:]}.get(damage, [])
    journal.write_bytes(b"".join([*kept, *left]))
    return len(kept)


@pytest.mark.parametrize("damage", ["zeros", "torn", "cut", "empty"])
async def test_what_the_journal_of_a_finished_run_no_longer_holds_is_told(vibe_home: Path, damage: str) -> None:
    async with running(vibe_home) as run:
        run.publish(10)
        journal = Path(run.bus.entry.journal)
    kept = spoil(journal, damage)

    async with ipc.subscribe("run-1", home=vibe_home) as records:
        assert seqs(await take(records, kept)) == list(range(1, kept + 1))
        with pytest.raises(EventsLostError, match=f"events {kept + 1} to 10 are lost"):
            await rest(records)


async def test_events_missing_from_the_middle_of_a_journal_are_told_after_the_others(vibe_home: Path) -> None:
    async with running(vibe_home) as run:
        run.publish(10)
        journal = Path(run.bus.entry.journal)
    spoil(journal, "gap")

    for target in ("run-1", journal):
        async with ipc.subscribe(target, home=vibe_home) as records:
            assert seqs(await take(records, 8)) == [*range(1, 7), 9, 10]
            with pytest.raises(EventsLostError, match="events 7 to 8 are lost"):
                await rest(records)


def thin_out(journal: Path) -> None:
    """Damage the second event, and take out the fifth and the sixth."""
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([lines[0], b"damage\n", *lines[2:4], *lines[6:]]))


@pytest.mark.parametrize("after", [0, 2, 6, 8, 9])
async def test_a_subscriber_that_begins_behind_missing_events_gets_all_it_asked_for(
    vibe_home: Path, after: int
) -> None:
    async with running(vibe_home) as run:
        run.publish(10)
        journal = Path(run.bus.entry.journal)
    thin_out(journal)

    async with ipc.subscribe(journal, home=vibe_home, after=after) as records:
        left = [number for number in range(after + 1, 11) if number not in {2, 5, 6}]
        assert seqs(await take(records, len(left))) == left
        if after < 6:
            told = {0: "events 2 and 5 to 6 are", 2: "events 5 to 6 are"}[after]
            with pytest.raises(EventsLostError, match=f"{told} lost"):
                await rest(records)
        else:
            assert await rest(records) == []


async def test_a_new_source_at_the_same_address_ends_the_old_one(vibe_home: Path) -> None:
    address = f"ipc://{vibe_home}/own.sock"
    async with running(vibe_home, "first", address) as first:
        first.publish(3)
        async with ipc.subscribe(address, home=vibe_home) as records:
            await take(records, 3)
            first.publish(4)
            await first.close()
            async with running(vibe_home, "second", address) as second:
                second.publish(50)
                assert await rest(records) == [4, 5, 6, 7]
                assert records.ended in {EndReason.REPLACED, EndReason.FINISHED}
                assert records.source == "first"
                async with ipc.subscribe(address, home=vibe_home) as fresh:
                    assert seqs(await take(fresh, 50)) == list(range(1, 51))


async def test_tcp_has_replay_at_the_next_port(vibe_home: Path, tmp_path: Path) -> None:
    port = ports_in_a_row()
    address = f"tcp://127.0.0.1:{port}"
    async with running(vibe_home, address=address) as run:
        run.publish(10)
        assert run.bus.entry.replay == f"tcp://127.0.0.1:{port + 1}"
        # This home has never heard of the run. The answer to the first request says all that is needed.
        async with ipc.subscribe(address, home=tmp_path / "elsewhere", token=run.bus.entry.token) as records:
            run.publish(10)
            assert seqs(await take(records, 20)) == list(range(1, 21))
            await run.close()
            assert await rest(records) == []


async def test_on_tcp_nothing_is_told_without_the_token(vibe_home: Path, tmp_path: Path) -> None:
    address = f"tcp://127.0.0.1:{ports_in_a_row()}"
    async with running(vibe_home, address=address) as run:
        run.publish(3)
        for token in ("", "0" * 48, run.bus.entry.token[:-1]):
            with pytest.raises(IpcError, match="VIBE_BUS_TOKEN"):
                await ipc.subscribe(address, home=tmp_path / "elsewhere", token=token).__aenter__()
            question = ReqSocket(run.bus.entry.replay)
            answer = await question.ask(encode_request(ReplayRequest(first=1, token=token)))
            question.close()
            assert decode_answer(answer)[1] == []
            assert str(vibe_home) not in answer.decode()
        async with ipc.subscribe(address, home=vibe_home, after="now") as records:
            listener = SubSocket(address)
            run.publish(5)
            assert seqs(await take(records, 5)) == [4, 5, 6, 7, 8]  # the user's own home knows the token
            frames: list[bytes] = []
            while not any(b'"seq":8' in frame for frame in frames):
                await listener.wait()
                frames += listener.receive(100)
            listener.close()
        assert all(frame.startswith(b"hb\0") for frame in frames)


async def test_a_name_nobody_has_is_one_sentence(vibe_home: Path) -> None:
    async with running(vibe_home, "run-1"), running(vibe_home, "run-2"):
        for name, problem in (("run-3", "is not a run"), ("run", "matches several runs")):
            with pytest.raises(UnknownSourceError, match=rf"{name} {problem}.*run-1, run-2"):
                await ipc.subscribe(name, home=vibe_home).__aenter__()


async def test_an_address_where_nobody_answers_is_one_sentence(vibe_home: Path) -> None:
    with pytest.raises(UnknownSourceError, match="does not answer"):
        await ipc.subscribe(f"ipc://{vibe_home}/nobody.sock", home=vibe_home).__aenter__()


async def test_events_out_of_order_are_refused(vibe_home: Path) -> None:
    async with running(vibe_home) as run:
        run.publish(2)
        for seq in (1, 2, 4):
            with pytest.raises(IpcError, match=f"expected event 3 and was given {seq}"):
                run.bus.publish(UserMessageEvent(seq=seq, text="x"))
        run.publish(1)
        assert run.bus.journal.head == 3


async def test_many_subscribers_each_get_everything(vibe_home: Path) -> None:
    got: dict[int, list[int]] = {}

    async def follow(number: int) -> None:
        async with ipc.subscribe("run-1", home=vibe_home) as records:
            got[number] = await rest(records)

    async with running(vibe_home) as run, anyio.create_task_group() as tasks:
        for number in range(4):
            tasks.start_soon(follow, number)
        for _ in itertools.repeat(None, 20):
            run.publish(100)
            await anyio.sleep(0.001)
        await run.close()

    assert got == {number: list(range(1, 2001)) for number in range(4)}
