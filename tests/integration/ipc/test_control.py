"""Commands over real sockets: who may send them, how they are answered, and that no input harms the run."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

import anyio
import pytest
from anyio.from_thread import start_blocking_portal
from msgspec import structs

from ipc import control
from ipc._nng import ConnectionLostError, ReqSocket
from ipc.bus import EventBus, event_bus
from ipc.commands import (
    COMMAND_VERSION,
    Cancel,
    Command,
    Decide,
    Pause,
    Ping,
    Reply,
    Requests,
    Revise,
    RunCommand,
    decode_reply,
    encode_command,
)
from ipc.control import TRANSPORT_LIMIT_BYTES, Serve, control_server, send_command
from ipc.errors import AddressInUseError, IpcError
from ipc.registry import Entry, Registry, RunInfo
from tests.architecture.project import ROOT
from tests.fakes.ports import ports_in_a_row

PATIENCE_S = 120.0


@dataclass
class Served:
    """Takes commands as a run would, and keeps them."""

    commands: list[RunCommand] = field(default_factory=list[RunCommand])
    reply: Reply = field(default_factory=lambda: Reply(ok=True, message="done", data={"n": 1}))

    async def __call__(self, command: RunCommand) -> Reply:
        self.commands.append(command)
        return 1 / 0 if isinstance(command, Cancel) else self.reply  # pyright: ignore[reportReturnType]  it raises


@pytest.fixture(params=["ipc", "tcp"])
def bus(vibe_home: Path, request: pytest.FixtureRequest) -> Iterator[EventBus]:
    address = f"tcp://127.0.0.1:{ports_in_a_row()}" if request.param == "tcp" else None
    with EventBus(vibe_home, source="run-1", info=RunInfo(cwd="/", plan_id="p"), address=address) as bus:
        yield bus


@pytest.fixture
def served() -> Served:
    return Served()


@pytest.fixture
def entry(bus: EventBus, served: Served, vibe_home: Path) -> Iterator[Entry]:
    """Serve commands on a loop of its own, and yield the registry entry of the run."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(control_server(bus.entry, served)):
        yield entry_of(vibe_home)


async def ask(entry: Entry, command: Command) -> Reply:
    """Send a command as a front end would, with the token from the registry."""
    with anyio.fail_after(PATIENCE_S):
        return await send_command(entry, command)


async def ask_raw(entry: Entry, request: bytes) -> Reply:
    """Send raw bytes, as any program might."""
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
    command = Decide(decision_id="ship", selections=("yes",))

    assert await ask(entry, command) == served.reply
    assert served.commands == [command]
    ping = await ask(entry, Ping())
    assert (ping.ok, ping.data["source"], ping.data["pid"]) == (True, "run-1", os.getpid())
    assert len(served.commands) == 1


@pytest.mark.parametrize("token", ["", "wrong", "tökén"])
async def test_without_the_token_nothing_is_served(entry: Entry, served: Served, token: str) -> None:
    entry = structs.replace(entry, token=token)

    for command in (Pause(), Ping(), Cancel()):
        reply = await ask(entry, command)
        assert (reply.ok, "token" in reply.message) == (False, True)
    assert served.commands == []


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
    assert len(served.commands) == 2


async def test_another_version_and_an_unknown_wish_are_told_what_is_known(entry: Entry, served: Served) -> None:
    newer = await ask_raw(
        entry, json.dumps({"type": "pause", "token": entry.token, "version": COMMAND_VERSION + 1}).encode()
    )
    unknown = await ask_raw(entry, json.dumps({"type": "fly", "token": entry.token}).encode())

    assert f"version {COMMAND_VERSION + 1}" in newer.message
    assert "'fly'" in unknown.message
    assert "ping, pause, cancel, decide, revise" in unknown.message
    assert served.commands == []


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
        before = len(served.commands)
        reply = await ask_raw(entry, request)
        assert reply.ok == (len(served.commands) > before), request[:200]
    assert (await ask(entry, Pause())).ok


async def test_a_request_too_large_to_read_cuts_only_its_own_sender_off(entry: Entry, served: Served) -> None:
    socket = ReqSocket(entry.control, once=True)
    with anyio.move_on_after(0.2), suppress(ConnectionLostError):  # NNG does not always report it
        await socket.ask(b"x" * (TRANSPORT_LIMIT_BYTES + 1))
        raise AssertionError
    socket.close()

    assert (await ask(entry, Pause())).ok
    assert len(served.commands) == 1


class Waiting:
    """Answers commands once ``verdict`` is set, Pause and Cancel at once, and counts those received."""

    def __init__(self) -> None:
        self.commands: list[RunCommand] = []
        self.verdict = anyio.Event()
        self.news = anyio.Event()

    async def __call__(self, command: RunCommand) -> Reply:
        self.commands.append(command)
        self.news.set()
        if not isinstance(command, Pause | Cancel):
            await self.verdict.wait()
        return Reply(ok=True, message=f"done {len(self.commands)}")

    async def has(self, count: int) -> None:
        while len(self.commands) < count:
            self.news = anyio.Event()
            await self.news.wait()


@asynccontextmanager
async def run_that(home: Path, serve: Serve) -> AsyncGenerator[Entry]:
    """Start a run that handles commands with ``serve``."""
    async with (
        event_bus(partial(EventBus, home, source="run-1", info=RunInfo(cwd="/"))) as bus,
        control_server(bus.entry, serve),
    ):
        yield await anyio.to_thread.run_sync(entry_of, home)


async def test_wishes_that_wait_hold_up_no_other(vibe_home: Path) -> None:
    run = Waiting()
    replies: list[Reply] = []

    async def decide(number: int) -> None:
        replies.append(await ask(entry, Decide(decision_id=str(number), selections=("yes",))))

    async with run_that(vibe_home, run) as entry, anyio.create_task_group() as tasks:
        for number in range(12):
            tasks.start_soon(decide, number)
        await run.has(12)
        for command in (Ping(), Pause(), Cancel()):
            assert (await ask(entry, command)).ok
        assert replies == []
        run.verdict.set()
    assert len(replies) == 12
    assert all(reply.ok for reply in replies)


async def test_no_more_wait_than_there_is_room_for_but_a_run_can_always_be_stopped(
    vibe_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "MOST_WAITING", 3)
    run = Waiting()
    sockets: list[ReqSocket] = []
    async with run_that(vibe_home, run) as entry, anyio.create_task_group() as tasks:
        command = encode_command(Decide(decision_id="d", selections=("yes",), token=entry.token))
        for _ in range(3):
            sockets.append(ReqSocket(entry.control))
            tasks.start_soon(sockets[-1].ask, command)
        await run.has(3)
        full = await ask(entry, Revise(operations=({"n": 1},)))
        assert (full.ok, full.reason) == (False, "refused")
        assert (await ask(entry, Cancel())).ok
        run.verdict.set()
    for socket in sockets:
        socket.close()
    assert len(run.commands) == 4


async def test_the_same_command_id_again_does_nothing_and_gets_the_same_reply(vibe_home: Path) -> None:
    run = Waiting()
    replies: list[Reply] = []
    command = Decide(decision_id="d", selections=("yes",), command_id="mine")

    async def decide() -> None:
        replies.append(await ask(entry, command))

    async with run_that(vibe_home, run) as entry:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(decide)
            await run.has(1)
            tasks.start_soon(decide)
            assert (await ask(entry, Pause())).ok  # by now the second has arrived, and waits
            run.verdict.set()
        assert await ask(entry, command) == replies[0] == replies[1]
        other = await ask(entry, structs.replace(command, selections=("no",)))
        assert (other.ok, other.reason) == (False, "invalid")
        assert await ask(entry, structs.replace(command, command_id="another")) != replies[0]
        lists = [await ask(entry, Requests(command_id="r")) for _ in range(2)]
        assert lists[0] != lists[1], "a list is made anew"
    assert sum(isinstance(taken, Decide) for taken in run.commands) == 2


async def test_a_defect_is_told_again_to_the_same_command_id(entry: Entry, served: Served) -> None:
    for _ in range(2):
        assert (await ask(entry, Cancel(command_id="mine"))).reason == "defect"
    assert len(served.commands) == 1


async def test_a_run_that_ends_while_somebody_waits_says_what_it_knows(
    vibe_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "SETTLING_S", 0.05)
    replies: list[Reply] = []

    async def ask_and_keep(entry: Entry) -> None:
        replies.append(await ask(entry, Decide(decision_id="d", selections=("yes",))))

    for settles in (True, False):
        run = Waiting()
        async with anyio.create_task_group() as tasks, run_that(vibe_home, run) as entry:
            tasks.start_soon(ask_and_keep, entry)
            await run.has(1)
            if settles:
                run.verdict.set()
    assert [(reply.ok, reply.reason) for reply in replies] == [(True, None), (False, "ended")]


async def test_what_goes_wrong_with_the_run_passes_as_it_is(vibe_home: Path) -> None:
    async def fail() -> None:
        async with run_that(vibe_home, Served()) as entry:
            assert (await ask(entry, Pause())).ok
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    with anyio.move_on_after(0.2) as scope:
        async with run_that(vibe_home, Served()):
            await anyio.sleep_forever()
    assert scope.cancelled_caught


RUN = """
import sys
from pathlib import Path
import anyio
from functools import partial
from ipc.bus import EventBus, event_bus
from ipc.control import control_server
from ipc.registry import RunInfo
async def serve(command):
    print("asked", flush=True)
    await anyio.sleep(600)
async def run():
    async with event_bus(partial(EventBus, Path(sys.argv[1]), source="run-1", info=RunInfo(cwd="/"))) as bus:
        async with control_server(bus.entry, serve):
            print("ready", flush=True)
            await anyio.sleep(600)
anyio.run(run)
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
            with pytest.raises(IpcError, match=str(run.pid)):
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
        lambda: EventBus(vibe_home, source="run-2", info=RunInfo(cwd="/"), address=address)
    )
    async with control_server(bus.entry, Served()):
        assert (await ask(bus.entry, Ping())).data["source"] == "run-2"
    await anyio.to_thread.run_sync(bus.close)
    assert not (vibe_home / "own.sock.control").exists()


async def test_a_second_server_at_the_address_is_refused(bus: EventBus, entry: Entry) -> None:
    assert entry.control == bus.entry.control
    with pytest.raises(AddressInUseError):
        async with control_server(bus.entry, Served()):
            raise AssertionError
