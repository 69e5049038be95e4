"""Wishes over real sockets: who may ask, what is answered, and that nothing that is sent hurts the run."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import anyio
import msgspec
import pytest

from ipc._nng import ConnectionLostError, ReqSocket
from ipc.bus import EventBus
from ipc.commands import Cancel, Command, Decide, Pause, Ping, Reply, Revise, Wish, decode_reply, encode_command
from ipc.control import TRANSPORT_LIMIT_BYTES, ControlServer, control_server, send_command
from ipc.errors import AddressInUseError, RunGoneError
from ipc.registry import Entry, Registry, RunInfo
from tests.architecture.project import ROOT
from tests.fakes.ports import ports_in_a_row

PATIENCE_S = 120.0


@dataclass
class Served:
    """Takes wishes as a run would, and remembers them."""

    wishes: list[Wish] = field(default_factory=list[Wish])
    reply: Reply = field(default_factory=lambda: Reply(ok=True, message="done", data={"n": 1}))

    def __call__(self, wish: Wish) -> Reply:
        self.wishes.append(wish)
        return 1 / 0 if isinstance(wish, Cancel) else self.reply  # pyright: ignore[reportReturnType]  it raises


@pytest.fixture(params=["ipc", "tcp"])
def bus(vibe_home: Path, request: pytest.FixtureRequest) -> Iterator[EventBus]:
    address = f"tcp://127.0.0.1:{ports_in_a_row()}" if request.param == "tcp" else None
    with EventBus.open(vibe_home, source="run-1", info=RunInfo(cwd="/", plan_id="p"), address=address) as bus:
        yield bus


@pytest.fixture
def served() -> Served:
    return Served()


@pytest.fixture
def server(bus: EventBus, served: Served) -> Iterator[ControlServer]:
    with ControlServer(bus.entry, served) as server:
        yield server


@pytest.fixture
def entry(server: ControlServer, vibe_home: Path) -> Entry:
    """What the registry says of a run that serves wishes."""
    assert server is not None
    return entry_of(vibe_home)


async def ask(entry: Entry, command: Command) -> Reply:
    """As a front end would, from what the registry says."""
    with anyio.fail_after(PATIENCE_S):
        return await send_command(entry, command)


async def ask_raw(entry: Entry, request: bytes) -> Reply:
    """As any program might."""
    socket = ReqSocket(entry.control)
    try:
        with anyio.fail_after(PATIENCE_S):
            return decode_reply(await socket.ask(request))
    finally:
        socket.close()


def entry_of(home: Path) -> Entry:
    [entry] = Registry(home).running()
    return entry


async def test_a_wish_reaches_the_run_and_its_reply_the_asker(entry: Entry, served: Served) -> None:
    wish = Decide(decision_id="ship", selections=("yes",))

    assert await ask(entry, wish) == served.reply
    assert [msgspec.structs.replace(taken, token="") for taken in served.wishes] == [wish]
    ping = await ask(entry, Ping())
    assert (ping.ok, ping.data["source"], ping.data["pid"]) == (True, "run-1", os.getpid())
    assert len(served.wishes) == 1


@pytest.mark.parametrize("token", ["", "wrong", "tökén"])
async def test_without_the_token_nothing_is_served(entry: Entry, served: Served, token: str) -> None:
    entry = msgspec.structs.replace(entry, token=token)

    for command in (Pause(), Ping(), Cancel()):
        reply = await ask(entry, command)
        assert (reply.ok, "token" in reply.message) == (False, True)
    assert served.wishes == []


def test_only_the_user_can_read_the_token(bus: EventBus, vibe_home: Path) -> None:
    entry = bus.entry
    bus.announce(RunInfo(cwd="/", plan_id="later"))
    registered = vibe_home / "run" / "run-1.json"

    assert len(entry.token) >= 32
    assert entry_of(vibe_home).token == entry.token
    assert stat.S_IMODE(registered.stat().st_mode) == 0o600
    beside = Path(entry.journal).with_name("publisher.json").read_text()
    assert entry.token not in beside
    bus.close()
    assert entry.token not in Path(entry.journal).with_name("publisher.json").read_text()
    assert not registered.exists()


async def test_a_defect_of_the_run_is_an_answer_and_the_next_wish_is_served(entry: Entry, served: Served) -> None:
    reply = await ask(entry, Cancel())

    assert (reply.ok, "ZeroDivisionError" in reply.message) == (False, True)
    assert (await ask(entry, Pause())).ok
    assert len(served.wishes) == 2


async def test_another_version_and_an_unknown_wish_are_told_what_is_known(entry: Entry, served: Served) -> None:
    newer = await ask_raw(entry, json.dumps({"type": "pause", "token": entry.token, "version": 2}).encode())
    unknown = await ask_raw(entry, json.dumps({"type": "fly", "token": entry.token}).encode())

    assert "version 2" in newer.message
    assert "'fly'" in unknown.message
    assert "ping, pause, cancel, decide, revise" in unknown.message
    assert served.wishes == []


async def test_whatever_is_sent_the_run_answers_and_lives(entry: Entry, served: Served) -> None:
    dice = Random(7)
    sound = encode_command(Decide(decision_id="ship", selections=("yes",), token=entry.token))
    hostile = [b"", b"\0" * 100, b"{" * 50_000, b"[" * 5_000_000, b'{"type":1}', b'"\xff"']
    for _ in range(150):
        broken = bytearray(sound)
        for _ in range(dice.randint(1, 6)):
            broken[dice.randrange(len(broken))] = dice.randrange(256)
        hostile.append(bytes(broken))

    for request in hostile:
        before = len(served.wishes)
        reply = await ask_raw(entry, request)
        assert reply.ok == (len(served.wishes) > before), request[:200]
    assert (await ask(entry, Pause())).ok


async def test_a_request_too_large_to_read_cuts_only_its_own_sender_off(entry: Entry, served: Served) -> None:
    socket = ReqSocket(entry.control, once=True)
    with anyio.move_on_after(0.2), suppress(ConnectionLostError):  # NNG does not always tell
        await socket.ask(b"x" * (TRANSPORT_LIMIT_BYTES + 1))
        raise AssertionError
    socket.close()

    assert (await ask(entry, Pause())).ok
    assert len(served.wishes) == 1


async def test_wishes_that_come_together_are_served_one_after_the_other(entry: Entry, served: Served) -> None:
    replies: list[Reply] = []

    async def one(number: int) -> None:
        replies.append(await ask(entry, Revise(operations=({"n": number},))))

    async with anyio.create_task_group() as tasks:
        for number in range(12):
            tasks.start_soon(one, number)

    assert len(replies) == 12
    assert sorted(w.operations[0]["n"] for w in served.wishes if isinstance(w, Revise)) == list(range(12))


async def test_a_run_that_ends_while_somebody_waits_is_said(vibe_home: Path) -> None:
    waits = threading.Event()
    goes_on = threading.Event()

    def never(_: Wish) -> Reply:
        waits.set()
        goes_on.wait(PATIENCE_S)
        return Reply(ok=False, message="ended")

    bus = await anyio.to_thread.run_sync(lambda: EventBus.open(vibe_home, source="run-1", info=RunInfo(cwd="/")))
    server = await anyio.to_thread.run_sync(ControlServer, bus.entry, never)
    entry = await anyio.to_thread.run_sync(entry_of, vibe_home)

    async def end() -> None:
        await anyio.to_thread.run_sync(waits.wait)
        goes_on.set()
        await anyio.to_thread.run_sync(server.close)
        await anyio.to_thread.run_sync(bus.close)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(end)
        assert await ask(entry, Pause()) == Reply(ok=False, message="ended")
    with pytest.raises(RunGoneError, match="run-1"):
        await ask(entry, Pause())


RUN = """
import sys, time
from pathlib import Path
from ipc.bus import EventBus
from ipc.control import ControlServer
from ipc.registry import RunInfo
with EventBus.open(Path(sys.argv[1]), source="run-1", info=RunInfo(cwd="/")) as bus:
    with ControlServer(bus.entry, lambda wish: print("asked", flush=True) or time.sleep(600)):
        print("ready", flush=True)
        time.sleep(600)
"""


async def test_a_run_that_is_killed_while_somebody_waits_is_said(vibe_home: Path) -> None:
    command = [sys.executable, "-c", RUN, str(vibe_home)]
    run = await anyio.to_thread.run_sync(lambda: subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True))
    assert run.stdout is not None
    try:
        assert await anyio.to_thread.run_sync(run.stdout.readline) == "ready\n"
        entry = await anyio.to_thread.run_sync(entry_of, vibe_home)

        async def kill() -> None:
            assert run.stdout is not None
            assert await anyio.to_thread.run_sync(run.stdout.readline) == "asked\n"
            run.send_signal(signal.SIGKILL)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kill)
            with pytest.raises(RunGoneError, match=str(run.pid)):
                await ask(entry, Pause())
    finally:
        run.kill()
        await anyio.to_thread.run_sync(run.communicate)


async def test_what_a_dead_run_left_at_the_address_is_no_hindrance(vibe_home: Path) -> None:
    address = f"ipc://{vibe_home}/own.sock"
    command = [
        sys.executable,
        "-c",
        RUN.replace('info=RunInfo(cwd="/")', f'info=RunInfo(cwd="/"), address="{address}"'),
    ]
    run = await anyio.to_thread.run_sync(
        lambda: subprocess.Popen([*command, str(vibe_home)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    )
    assert run.stdout is not None
    await anyio.to_thread.run_sync(run.stdout.readline)
    run.kill()
    await anyio.to_thread.run_sync(run.communicate)
    assert (vibe_home / "own.sock.control").exists()

    bus = await anyio.to_thread.run_sync(
        lambda: EventBus.open(vibe_home, source="run-2", info=RunInfo(cwd="/"), address=address)
    )
    async with control_server(bus.entry, Served()):
        assert (await ask(bus.entry, Ping())).data["source"] == "run-2"
    await anyio.to_thread.run_sync(bus.close)
    assert not (vibe_home / "own.sock.control").exists()


def test_a_second_server_at_the_address_is_refused(bus: EventBus, server: ControlServer) -> None:
    assert server is not None
    with pytest.raises(AddressInUseError):
        ControlServer(bus.entry, Served())
