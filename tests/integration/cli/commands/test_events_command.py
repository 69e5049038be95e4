"""``vibe events``: a plain subscriber in a terminal."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ipc.bus import EventBus
from ipc.events import PlanPausedEvent, UserMessageEvent
from ipc.registry import RunInfo
from ipc.sink import StampingSink
from tests.architecture.project import ROOT
from tests.fakes.waiting import until
from vibe.cli.environment import CliEnvironment
from vibe.cli.run import run_command_line


class Surroundings:
    """A command line with its streams."""

    def __init__(self, home: Path) -> None:
        self.out = io.StringIO()
        self.err = io.StringIO()
        self.environment = CliEnvironment(
            home=home, cwd=home, environ={}, stdout=self.out, stderr=self.err, stdin=io.StringIO()
        )

    def run(self, *arguments: str) -> int:
        """Run ``vibe events ...`` and return its exit code."""
        return run_command_line(["events", *arguments], self.environment)


@pytest.fixture
def surroundings(vibe_home: Path) -> Surroundings:
    return Surroundings(vibe_home)


@pytest.fixture
def bus(vibe_home: Path) -> Iterator[EventBus]:
    info = RunInfo(cwd="/somewhere", title="Fix\x1b[31m it", plan_id="plan-1")
    with EventBus(vibe_home, source="run-1", info=info) as bus:
        yield bus


def publish(bus: EventBus, count: int = 2) -> None:
    sink = StampingSink(bus.entry.source, bus)
    for number in range(count):
        sink.publish(UserMessageEvent(text=f"hello {number}"))
    sink.publish(PlanPausedEvent(plan_id="plan-1", reason="tea\x1b[2J"))


def test_the_schema_is_the_one_that_comes_with_the_package(surroundings: Surroundings) -> None:
    assert surroundings.run("schema") == 0

    assert surroundings.out.getvalue() == (ROOT / "ipc" / "events.schema.json").read_text(encoding="utf-8")


def start(home: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "vibe", "events", *arguments]
    variables = {**os.environ, "VIBE_HOME": str(home), "XDG_RUNTIME_DIR": ""}
    return subprocess.Popen(command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_list_shows_who_publishes(surroundings: Surroundings, bus: EventBus) -> None:
    assert surroundings.run("list") == 0
    assert "run-1" in surroundings.out.getvalue()
    assert bus.entry.events in surroundings.out.getvalue()
    assert surroundings.out.getvalue().endswith("/somewhere Fix it\n")


def test_list_as_json_is_what_the_registry_holds(surroundings: Surroundings, bus: EventBus) -> None:
    assert surroundings.run("list", "--output", "json") == 0
    (entry,) = json.loads(surroundings.out.getvalue())
    assert (entry["source"], entry["journal"]) == ("run-1", bus.entry.journal)


def test_list_without_runs_says_so(surroundings: Surroundings) -> None:
    assert surroundings.run("list") == 0
    assert surroundings.out.getvalue() == "nothing is running\n"


def test_tail_of_an_ended_run_prints_readable_lines(surroundings: Surroundings, bus: EventBus) -> None:
    publish(bus)
    bus.close()

    assert surroundings.run("tail", "run-1", "--from", "2") == 0
    second, third = surroundings.out.getvalue().splitlines()
    assert second.split(maxsplit=3)[0::2] == ["2", "user.message"]
    assert second.endswith("user: hello 1")
    assert third.endswith("plan paused (tea)")
    assert surroundings.err.getvalue() == "publisher run-1: finished\n"


def test_tail_as_json_prints_the_bodies(surroundings: Surroundings, bus: EventBus) -> None:
    publish(bus)
    bus.close()

    assert surroundings.run("tail", bus.entry.journal, "--output", "json", "--topic", "user.", "--topic", "warn") == 0
    assert surroundings.out.getvalue() == "".join(
        f"{line}\n" for line in Path(bus.entry.journal).read_text(encoding="utf-8").splitlines()[:2]
    )


def test_tail_without_a_source_needs_exactly_one(surroundings: Surroundings, vibe_home: Path) -> None:
    assert surroundings.run("tail") == 2
    assert "no SOURCE was given and no run is publishing" in surroundings.err.getvalue()
    info = RunInfo(cwd="/")
    with EventBus(vibe_home, source="run-1", info=info), EventBus(vibe_home, source="run-2", info=info):
        assert surroundings.run("tail") == 2
    assert "several runs are publishing: give a source, plan or session id" in surroundings.err.getvalue()
    assert "running now: run-1, run-2" in surroundings.err.getvalue()


@pytest.mark.parametrize(
    ("source", "code"), [("nobody", 2), ("/no/such/journal", 2), ("ws://127.0.0.1:5", 3), ("tcp://10.0.0.1:5", 3)]
)
def test_a_source_that_can_not_be_read_is_one_sentence(surroundings: Surroundings, source: str, code: int) -> None:
    assert surroundings.run("tail", source) == code
    assert surroundings.err.getvalue().startswith("vibe: ")
    assert surroundings.err.getvalue().count("\n") == 1


@pytest.mark.parametrize("content", ["", "notes", "notes\n", '{"version": 1}'])
def test_a_file_that_is_no_journal_is_no_run_that_died(
    surroundings: Surroundings, tmp_path: Path, content: str
) -> None:
    (tmp_path / "notes.txt").write_text(content)

    assert surroundings.run("tail", str(tmp_path / "notes.txt")) == 2
    assert re.search(
        r"vibe: the journal \S+ can't be used: (it holds no event|its line 1 is not an event); give the path of a",
        surroundings.err.getvalue(),
    )


def test_a_source_that_is_not_there_cannot_draw_on_the_terminal(surroundings: Surroundings) -> None:
    assert surroundings.run("tail", "a\x1b[31mb") == 2
    assert surroundings.err.getvalue().startswith("vibe: ab is not a run on this machine: give a source")


def test_event_numbers_begin_at_one(surroundings: Surroundings) -> None:
    assert surroundings.run("tail", "--from", "0") == 2
    assert "must be an event number, 1 or more, not '0'" in surroundings.err.getvalue()


@pytest.mark.parametrize("text", ["root:x:0\n", '{"a": 1}\n', "[]\n", "\udcff\n"])
def test_tail_of_a_file_that_is_no_journal_is_wrong_use(surroundings: Surroundings, tmp_path: Path, text: str) -> None:
    (tmp_path / "file").write_text(text, errors="surrogateescape")
    assert surroundings.run("tail", str(tmp_path / "file"), "--output", "json") == 2
    assert "its line 1 is not an event; give the path of a journal.jsonl" in surroundings.err.getvalue()


def test_tail_follows_the_only_run_to_its_end(vibe_home: Path, bus: EventBus) -> None:
    publish(bus, 1)
    tail = start(vibe_home, "tail", "--from", "1", "--output", "json")
    assert tail.stdout is not None
    assert tail.stderr is not None
    assert json.loads(tail.stdout.readline())["text"] == "hello 0"
    bus.close()

    assert [json.loads(line)["type"] for line in tail.stdout] == ["plan.paused"]
    assert tail.stderr.read() == "publisher run-1: finished\n"
    assert tail.wait(timeout=120) == 0
    tail.stdout.close()
    tail.stderr.close()


def test_control_c_is_130(vibe_home: Path, bus: EventBus) -> None:
    publish(bus, 0)
    tail = start(vibe_home, "tail", "run-1", "--from", "1")
    assert tail.stdout is not None
    assert "plan paused" in tail.stdout.readline()
    tail.send_signal(signal.SIGINT)

    assert tail.communicate(timeout=120) == ("", "")
    assert tail.returncode == 130


def test_a_closed_pipe_ends_quietly(vibe_home: Path, bus: EventBus) -> None:
    publish(bus, 3)
    tail = start(vibe_home, "tail", "run-1", "--from", "1")
    assert tail.stdout is not None
    assert tail.stderr is not None
    tail.stdout.readline()
    tail.stdout.close()
    sink = StampingSink(bus.entry.source, bus)
    sink._seq = bus.journal.head  # pyright: ignore[reportPrivateUsage]  continues where the first sink stopped

    def ended() -> bool:
        sink.publish(UserMessageEvent(text="more"))
        return tail.poll() is not None

    until(ended)
    assert (tail.returncode, tail.stderr.read()) == (0, "")
    tail.stderr.close()


DIES = """
import os, pathlib, sys
from ipc.bus import EventBus
from ipc.events import UserMessageEvent
from ipc.registry import RunInfo
from ipc.sink import StampingSink

with EventBus(pathlib.Path(sys.argv[1]), source="dies", info=RunInfo(cwd="/")) as bus:
    StampingSink(bus.entry.source, bus).publish(UserMessageEvent(text="hello"))
    print("published", flush=True)
    os.kill(os.getpid(), 9)
"""


def test_the_tail_of_a_publisher_that_died_is_no_success(surroundings: Surroundings, vibe_home: Path) -> None:
    subprocess.run([sys.executable, "-c", DIES, str(vibe_home)], cwd=ROOT, check=False)
    journal = next(vibe_home.rglob("journal.jsonl"))
    assert surroundings.run("tail", str(journal)) == 1
    assert "hello" in surroundings.out.getvalue()
    assert "died" in surroundings.err.getvalue()


def test_of_a_damaged_journal_all_before_the_damage_is_printed_and_each_event_once(
    surroundings: Surroundings, bus: EventBus, tmp_path: Path
) -> None:
    publish(bus)
    lines = bus.journal.path.read_bytes().splitlines(keepends=True)
    (tmp_path / "file").write_bytes(b"".join([*lines, lines[-1], b"damage\n", *lines]))
    assert surroundings.run("tail", str(tmp_path / "file"), "--from", "1", "--output", "json") == 2
    assert surroundings.out.getvalue().encode().splitlines(keepends=True) == lines
    assert f"its line {len(lines) + 2} is not an event" in surroundings.err.getvalue()
