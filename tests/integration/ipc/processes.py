"""Publishers and consumers as processes of their own. This module is their main program too."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

import anyio

from ipc.bus import EventBus
from ipc.events import UserMessageEvent
from ipc.registry import RunInfo
from ipc.sink import StampingSink
from ipc.subscriber import Subscription
from tests.architecture.project import ROOT


def start(role: str, home: Path, *arguments: object) -> subprocess.Popen[str]:
    """Start ``publish`` or ``consume`` as a process."""
    command = [sys.executable, "-m", "tests.integration.ipc.processes", role, str(home), *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def numbers(path: Path) -> list[int]:
    """Return the event numbers that a consumer has written, one on each line."""
    return [int(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def publish(home: Path, source: str, count: int, per_second: int, address: str) -> None:
    """Publish ``count`` events at a rate (0: at once), then close. The address ``-`` stands for the default."""
    info = RunInfo(cwd="/", title="a test", plan_id=f"plan-{source}")
    with EventBus(home, source=source, info=info, address=None if address == "-" else address) as bus:
        sink = StampingSink(source, bus)
        print("ready", flush=True)  # noqa: T201  tells the test
        begun = time.monotonic()
        for number in range(count):
            sink.publish(UserMessageEvent(text=f"{number} {'x' * 200}"))
            if per_second:
                time.sleep(max(0.0, begun + number / per_second - time.monotonic()))


async def consume(home: Path, source: str, out: Path, buffered: int, pause_ms: float) -> None:
    """Append the number of each event to ``out``, continuing after the last number in it."""
    after = (numbers(out) or [0])[-1]
    subscription = Subscription(source, home=home, after=after)
    subscription.buffered = buffered
    with out.open("a", encoding="utf-8", buffering=1) as file:
        async with subscription as records:
            async for record in records:
                file.write(f"{record.seq}\n")
                if pause_ms:
                    time.sleep(pause_ms / 1000)  # noqa: ASYNC251  a consumer that blocks its loop
    print(subscription.ended, subscription.replayed, flush=True)  # noqa: T201  tells the test


def main() -> None:
    """Run the role on the command line; see ``start``."""
    parser = argparse.ArgumentParser()
    roles = parser.add_subparsers(dest="role", required=True)
    publisher = roles.add_parser("publish")
    consumer = roles.add_parser("consume")
    for role in (publisher, consumer):
        role.add_argument("home", type=Path)
        role.add_argument("source")
    publisher.add_argument("count", type=int)
    publisher.add_argument("per_second", type=int)
    publisher.add_argument("address", nargs="?", default="-")
    consumer.add_argument("out", type=Path)
    consumer.add_argument("buffered", type=int, nargs="?", default=8192)
    consumer.add_argument("pause_ms", type=float, nargs="?", default=0.0)
    arguments = vars(parser.parse_args())
    if arguments.pop("role") == "publish":
        publish(**arguments)
    else:
        anyio.run(lambda: consume(**arguments))


if __name__ == "__main__":
    main()
