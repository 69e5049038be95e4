"""Publishers and subscribers die at any moment, and no recorded event is lost or duplicated."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

import ipc
from ipc.bus import EventBus
from ipc.errors import EventsLostError
from ipc.journal import JournalReader
from ipc.registry import Registry, RunInfo
from tests.architecture.project import ROOT
from tests.fakes.waiting import until
from tests.integration.ipc.processes import numbers, start

EVENTS = 2_000_000
PER_SECOND = 4000


def recorded(home: Path, source: str) -> list[int]:
    entry = next(entry for entry in Registry(home).ended() if entry.source == source)
    reader = JournalReader(Path(entry.journal))
    found: list[int] = []
    while batch := reader.read_batch():
        found += [seq for seq, _ in batch]
    reader.close()
    return found


CROWD = """
import sys
from pathlib import Path
import anyio
import ipc

async def follow() -> None:
    async with ipc.subscribe("run-1", home=Path(sys.argv[1])) as records:
        seen.append([record.seq async for record in records])

async def main() -> None:
    async with anyio.create_task_group() as tasks:
        for _ in range(120):
            tasks.start_soon(follow)

seen = []
anyio.run(main)
print(len(seen), all(numbers == list(range(1, 2001)) for numbers in seen))
"""


def test_a_program_with_many_subscriptions_hears_the_end_of_all(vibe_home: Path) -> None:
    publisher = start("publish", vibe_home, "run-1", 2000, 8000)
    assert publisher.stdout is not None
    assert publisher.stdout.readline() == "ready\n"

    crowd = [sys.executable, "-c", CROWD, str(vibe_home)]
    heard = subprocess.run(crowd, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

    publisher.communicate()
    assert (heard.stdout, heard.stderr) == ("120 True\n", "")


def test_four_subscribers_survive_the_death_of_everybody(vibe_home: Path, tmp_path: Path) -> None:
    outs = {name: tmp_path / name for name in ("plain", "slow", "late", "killed")}
    publisher = start("publish", vibe_home, "run-1", EVENTS, PER_SECOND)
    assert publisher.stdout is not None
    assert publisher.stdout.readline() == "ready\n"
    consumers = {
        "plain": start("consume", vibe_home, "run-1", outs["plain"]),
        "slow": start("consume", vibe_home, "run-1", outs["slow"], 16, 0.4),
        "killed": start("consume", vibe_home, "run-1", outs["killed"]),
    }
    until(lambda: len(numbers(outs["killed"])) > 500)
    consumers["killed"].kill()
    consumers["killed"].communicate()
    consumers["late"] = start("consume", vibe_home, "run-1", outs["late"])
    consumers["killed"] = start("consume", vibe_home, "run-1", outs["killed"])
    before = len(numbers(outs["killed"]))
    until(lambda: len(numbers(outs["late"])) > 1000 and len(numbers(outs["killed"])) > before)
    until(lambda: len(numbers(outs["slow"])) > 100)
    publisher.send_signal(signal.SIGKILL)
    publisher.communicate()

    said = {name: consumer.communicate(timeout=600)[0] for name, consumer in consumers.items()}
    journal = recorded(vibe_home, "run-1")
    assert 1000 < len(journal) < EVENTS
    assert journal == list(range(1, len(journal) + 1))
    for name, out in outs.items():
        assert numbers(out) == journal, name
        assert said[name].startswith("died "), name
    assert Registry(vibe_home).running() == []


def test_a_new_publisher_where_one_died_ends_the_old_stream_from_its_journal(vibe_home: Path, tmp_path: Path) -> None:
    address = f"ipc://{vibe_home}/own.sock"
    publisher = start("publish", vibe_home, "first", EVENTS, PER_SECOND, address)
    assert publisher.stdout is not None
    publisher.stdout.readline()
    consumer = start("consume", vibe_home, address, tmp_path / "out")
    until(lambda: len(numbers(tmp_path / "out")) > 300)
    publisher.send_signal(signal.SIGKILL)
    publisher.communicate()
    with EventBus(vibe_home, source="second", info=RunInfo(cwd="/"), address=address):
        said, _ = consumer.communicate(timeout=600)

    assert numbers(tmp_path / "out") == recorded(vibe_home, "first")
    assert said.split()[0] in {"replaced", "died"}


def test_a_flood_that_ends_at_once_is_read_to_the_end(vibe_home: Path, tmp_path: Path) -> None:
    publisher = start("publish", vibe_home, "run-1", 20_000, 0)
    assert publisher.stdout is not None
    publisher.stdout.readline()
    consumer = start("consume", vibe_home, "run-1", tmp_path / "out")
    publisher.communicate(timeout=600)
    said, _ = consumer.communicate(timeout=600)

    assert numbers(tmp_path / "out") == list(range(1, 20_001))
    assert said.startswith("finished ")


def test_a_full_disk_is_told_and_what_waits_in_memory_is_still_delivered(vibe_home: Path, tmp_path: Path) -> None:
    script = """
        import resource, sys
        from pathlib import Path
        import anyio
        import ipc
        from functools import partial
        from ipc.bus import JOURNAL_UNWRITABLE, EventBus, event_bus
        from ipc.errors import EventsLostError
        from ipc.events import UserMessageEvent
        from ipc.registry import RunInfo
        from ipc.sink import StampingSink

        async def main():
            home, out = Path(sys.argv[1]), Path(sys.argv[2])
            async with event_bus(partial(EventBus, home, source="run-1", info=RunInfo(cwd="/"))) as bus:
                resource.setrlimit(resource.RLIMIT_FSIZE, (5000, resource.RLIM_INFINITY))
                sink = StampingSink("run-1", bus)
                for _ in range(100):
                    sink.publish(UserMessageEvent(text="x" * 100))
                assert bus.failed and len(bus.journal.unwritten) > 50 and bus.journal.head == 100
                assert [warning.code for warning in bus.warnings] == [JOURNAL_UNWRITABLE]
                async with ipc.subscribe("run-1", home=home) as records:
                    got = [(await anext(records)).seq for _ in range(100)]
                    assert got == list(range(1, 101)), got
            assert bus.failed and len(bus.journal.unwritten) > 50
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            written, got = 100 - len(bus.journal.unwritten), 0
            try:
                async with ipc.subscribe("run-1", home=home) as records:
                    async for record in records:
                        got += 1
            except EventsLostError as error:
                assert f"events {written + 1} to 100 are lost" in str(error), error
            else:
                raise AssertionError("the loss was not told")
            assert got == written
        anyio.run(main)
    """
    command = [sys.executable, "-B", "-c", textwrap.dedent(script), str(vibe_home), str(tmp_path / "out")]
    subprocess.run(command, check=True, cwd=ROOT, timeout=600)


def test_what_died_with_its_publisher_is_told(vibe_home: Path) -> None:
    script = """
        import resource, sys, time
        from pathlib import Path
        from ipc.bus import EventBus
        from ipc.events import UserMessageEvent
        from ipc.registry import RunInfo
        from ipc.sink import StampingSink
        bus = EventBus(Path(sys.argv[1]), source="run-1", info=RunInfo(cwd="/"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, resource.RLIM_INFINITY))
        sink = StampingSink("run-1", bus)
        for _ in range(100):
            sink.publish(UserMessageEvent(text="x" * 100))
        print("ready", flush=True)
        time.sleep(600)
    """
    command = [sys.executable, "-B", "-c", textwrap.dedent(script), str(vibe_home)]
    publisher = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert publisher.stdout is not None
    assert publisher.stdout.readline() == "ready\n"

    async def follow() -> None:
        async with ipc.subscribe("run-1", home=vibe_home) as records:
            publisher.kill()
            await to_thread.run_sync(publisher.communicate)
            with anyio.fail_after(120):
                assert [record async for record in records] == []

    with pytest.raises(EventsLostError, match=r"run-1 ended and events \d+ to 100 are lost"):
        anyio.run(follow)


def test_a_forked_child_exits(vibe_home: Path) -> None:
    script = """
        import gc, os, sys
        from pathlib import Path
        from ipc._nng import SubSocket
        from ipc.bus import EventBus
        from ipc.registry import RunInfo
        with EventBus(Path(sys.argv[1]), source="run-1", info=RunInfo(cwd="/")) as bus:
            listener = SubSocket(bus.entry.events)
            child = os.fork()
            if child == 0:
                del listener
                gc.collect()
                sys.exit(7)
            _, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == 7
            assert bus.entry.alive
            listener.close()
    """
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script), str(vibe_home)]
    subprocess.run(command, check=True, cwd=ROOT, timeout=600)


def test_a_program_that_ends_with_an_open_bus_says_nothing(vibe_home: Path) -> None:
    script = """
        import sys
        from pathlib import Path
        from ipc.bus import EventBus
        from ipc.registry import RunInfo
        bus = EventBus(Path(sys.argv[1]), source="run-1", info=RunInfo(cwd="/"))
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(vibe_home)]
    assert subprocess.run(command, check=True, cwd=ROOT, stderr=subprocess.PIPE, timeout=600).stderr == b""
