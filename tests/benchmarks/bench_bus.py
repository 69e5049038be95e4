"""The speed of the bus beside raw, lossy sockets, measured on the same bytes in the same run.

    python -m tests.benchmarks.bench_bus [--events N] [--repeat N] [--json]

``publish`` counts events per second taken by StampingSink, codec, journal (fsync every 50 ms) and socket together.
``exact`` counts events per second until the slowest subscriber process has every one. Raw rows count the messages that
arrived. Latency is from stamping to the subscriber's iterator.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec

from ipc.bus import EventBus
from ipc.codec import encode_event
from ipc.events import UserMessageEvent
from ipc.registry import RunInfo
from ipc.sink import StampingSink
from ipc.subscriber import subscribe

ROOT = Path(__file__).parent.parent.parent
EVENT_BYTES = 300
BUFFERED = 8192
LATENCY_RATE = 1000
LATENCY_EVENTS = 4000
TARGETS = {"publish_per_s": 50_000, "exact_to_raw": 0.25, "p99_ms": 5.0}
END = b"END"
Row = dict[str, float]


def event() -> UserMessageEvent:
    """Return an event whose body has about 300 bytes once it is stamped."""
    stamped = UserMessageEvent(text="", event_id="0" * 32, seq=10_000, source="bench", ts=time.time())
    return UserMessageEvent(text="x" * (EVENT_BYTES - len(encode_event(stamped))))


class Subscribers:
    """Subscriber processes. Each prints ``ready`` and, at the end, what it received."""

    def __init__(self, role: str, address: str, count: int, events: int) -> None:
        command = [sys.executable, "-m", "tests.benchmarks.bench_bus", "--role", role, address, str(events)]
        self.processes = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(count)]

    def wait_ready(self) -> None:
        """Wait until each has connected."""
        for process in self.processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"

    def results(self) -> list[dict[str, Any]]:
        """Return what each received."""
        return [json.loads(process.communicate(timeout=120)[0]) for process in self.processes]


def say(text: str) -> None:
    """Print a line for the parent process, or for a person."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


# --- ours


def ours(subscribers: int, events: int, *, rate: int = 0) -> Row:
    """Publish ``events`` at ``rate`` per second (0: as fast as possible) to some subscriber processes."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with EventBus(home, source="bench", info=RunInfo(cwd="/")) as bus:
            readers = Subscribers("ours", str(home), subscribers, events)
            readers.wait_ready()
            sink, one = StampingSink("bench", bus), event()
            begun = time.time()
            for number in range(events):
                sink.publish(one)
                if rate:
                    time.sleep(max(0.0, begun + (number + 1) / rate - time.time()))
            published = time.time()
            results = readers.results()
    assert all(result["count"] == events and result["in_order"] for result in results), "not exact"
    latencies = sorted(latency for result in results for latency in result["latencies"])
    return {
        "publish_per_s": events / (published - begun),
        "exact_per_s": events / (max(result["last"] for result in results) - begun),
        "replayed_share": statistics.mean(result["replayed"] for result in results) / events,
        "p50_ms": latencies[len(latencies) // 2] * 1000,
        "p99_ms": latencies[len(latencies) * 99 // 100] * 1000,
    }


def ours_alone(events: int) -> Row:
    """Publish to nobody, to measure what an event costs the run itself."""
    with (
        tempfile.TemporaryDirectory() as folder,
        EventBus(Path(folder), source="bench", info=RunInfo(cwd="/")) as bus,
    ):
        sink, one = StampingSink("bench", bus), event()
        begun = time.perf_counter()
        for _ in range(events):
            sink.publish(one)
        elapsed = time.perf_counter() - begun
    return {"publish_per_s": events / elapsed, "publish_us": elapsed / events * 1e6}


async def read_ours(home: Path, events: int) -> None:
    """Read every event, and print the result."""
    seqs: list[int] = []
    latencies: list[float] = []
    async with subscribe("bench", home=home) as records:
        say("ready")
        async for record in records:
            seqs.append(record.seq)
            if events <= LATENCY_EVENTS and (arrived := record.event) is not None:
                latencies.append(time.time() - arrived.ts)
            if len(seqs) == events:
                break
    last = time.time()
    in_order = seqs == list(range(1, events + 1))
    report = {"count": len(seqs), "in_order": in_order, "last": last, "replayed": records.replayed}
    say(json.dumps(report | {"latencies": latencies or [0.0]}))


# --- raw sockets


def raw(library: str, subscribers: int, events: int) -> Row:
    """Send the same bytes over a bare pub socket, without journal or numbers. What gets lost is lost."""
    body = b"user.message|-|-\x00" + encode_event(msgspec.structs.replace(event(), event_id="0" * 32, source="bench"))
    with tempfile.TemporaryDirectory() as folder:
        address = f"ipc://{folder}/raw.sock"
        send, close = _publisher(library, address)
        readers = Subscribers(library, address, subscribers, events)
        ready = _warm_up(send, readers)
        begun = time.time()
        for _ in range(events):
            send(body)
        sent = time.time()
        while not ready():
            send(END)
            time.sleep(0.02)
        results = readers.results()
        close()
    return {
        "send_per_s": events / (sent - begun),
        "received_per_s": min(result["count"] / (result["last"] - begun) for result in results),
        "lost_share": 1 - statistics.mean(result["count"] for result in results) / events,
    }


def _warm_up(send: Callable[[bytes], object], readers: Subscribers) -> Callable[[], bool]:
    """Send until every reader has received something. The returned function tells whether all of them have left."""
    processes = readers.processes
    for process in processes:
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        while not process.stdout.readline():
            send(b"warm up")
            time.sleep(0.01)
        os.set_blocking(process.stdout.fileno(), True)
    time.sleep(0.2)
    return lambda: all(process.poll() is not None for process in processes)


def _publisher(library: str, address: str) -> tuple[Callable[[bytes], object], Callable[[], object]]:
    module: Any = importlib.import_module(library)
    if library == "pynng":
        pub = module.Pub0(send_buffer_size=BUFFERED)
        pub.listen(address)
        return pub.send, pub.close
    context = module.Context()
    pub = context.socket(module.PUB)
    pub.set_hwm(BUFFERED)
    pub.bind(address)
    return pub.send, partial(context.destroy, linger=0)


async def read_raw(library: str, address: str) -> None:
    """Read until the end is announced, waiting on the descriptor as the subscriber does."""
    receive, again, fd = _raw_receiver(library, address)
    count, last, heard = 0, 0.0, False
    while True:
        try:
            message = receive()
        except again:
            await anyio.wait_readable(fd)
            continue
        if not heard:
            heard = True
            say("ready")
        if message == END:
            break
        if len(message) > 100:
            count, last = count + 1, time.time()
    say(json.dumps({"count": count, "last": last}))


def _raw_receiver(library: str, address: str) -> tuple[Callable[[], bytes], Any, int]:
    module: Any = importlib.import_module(library)
    if library == "pynng":
        sub = module.Sub0(recv_buffer_size=BUFFERED, reconnect_time_min=50, reconnect_time_max=50)
        sub.subscribe(b"")
        sub.dial(address, block=False)
        return partial(sub.recv, block=False), module.TryAgain, sub.recv_fd
    sub = module.Context.instance().socket(module.SUB)
    sub.set_hwm(BUFFERED)
    sub.connect(address)
    sub.subscribe(b"")
    return partial(sub.recv, module.NOBLOCK), module.Again, sub.FD


# --- report


def median(measure: Callable[[], Row], repeat: int) -> Row:
    """Return the median of each number."""
    rows = [measure() for _ in range(repeat)]
    return {name: statistics.median(row[name] for row in rows) for name in rows[0]}


def measure_all(events: int, repeat: int) -> dict[str, Row]:
    """Return every row of the report."""
    libraries = [name for name in ("pynng", "zmq") if importlib.util.find_spec(name)]
    alone = median(partial(ours_alone, events), repeat)
    report: dict[str, Row] = {"ours, flood, no subscriber": alone}
    for subscribers in (1, 4):
        mine = median(partial(ours, subscribers, events), repeat)
        others = {name: median(partial(raw, name, subscribers, events), repeat) for name in libraries}
        mine["exact_to_raw"] = mine["exact_per_s"] / others["pynng"]["received_per_s"]
        report[f"ours, flood, {subscribers} subscribers"] = {
            name: value for name, value in mine.items() if not name.endswith("_ms")
        }
        for name, row in others.items():
            report[f"raw {name}, flood, {subscribers} subscribers"] = row
    paced = median(partial(ours, 1, LATENCY_EVENTS, rate=LATENCY_RATE), repeat)
    report[f"ours, {LATENCY_RATE}/s, 1 subscriber"] = {name: paced[name] for name in ("p50_ms", "p99_ms")}
    return report


def main() -> None:
    """Measure and print, or be one of the subscribers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=40_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--role", nargs=3, metavar=("ROLE", "ADDRESS", "EVENTS"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.role:
        role, address, events = args.role
        reader = partial(read_ours, Path(address), int(events)) if role == "ours" else partial(read_raw, role, address)
        anyio.run(reader)
        return
    report = measure_all(args.events, args.repeat)
    if args.json:
        say(json.dumps({"rows": report, "targets": TARGETS}, indent=2))
        return
    for name, row in report.items():
        say(f"{name:<32}" + "  ".join(f"{key} {value:,.2f}" for key, value in row.items()))
    if not importlib.util.find_spec("zmq"):
        say("raw zmq: not installed")
    say("targets: " + ", ".join(f"{key} {value:,}" for key, value in TARGETS.items()))


if __name__ == "__main__":
    main()
