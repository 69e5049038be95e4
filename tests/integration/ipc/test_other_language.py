"""A subscriber that shares no code with ours reads live events."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from ipc.bus import EventBus
from ipc.codec import encode_event
from ipc.events import BaseEvent
from ipc.registry import RunInfo
from ipc.sink import MemorySink, StampingSink
from tests.fakes.events import event_classes, example

NODE = shutil.which("node")
PROGRAM = Path(__file__).with_name("subscriber.mjs")


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_a_program_in_javascript_reads_live_events(vibe_home: Path) -> None:
    assert NODE is not None
    kinds: tuple[type[BaseEvent], ...] = event_classes()
    stamped = MemorySink()
    with EventBus(vibe_home, source="run-1", info=RunInfo(cwd="/")) as bus:
        command = [NODE, str(PROGRAM), bus.entry.events]
        reader = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert reader.stderr is not None
        assert reader.stderr.readline() == "connected\n"
        number = StampingSink("run-1", stamped)
        for kind in kinds:
            number.publish(example(kind))
        for event in stamped.events:
            bus.publish(event)
    out, err = reader.communicate(timeout=15)

    assert err.replace("connected\n", "") == ""
    bodies = [line.partition(" ")[2] for line in out.splitlines()]
    assert [json.loads(body) for body in bodies] == [json.loads(encode_event(event)) for event in stamped.events]
    topic = next(line for line in out.splitlines() if line.startswith("user.message")).partition(" ")[0]
    assert topic == "user.message|plan-1|step-1"
