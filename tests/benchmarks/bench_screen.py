"""The cost of the screen for a person: start, keys, a long session, memory, and the processor while nothing happens.

    python -m tests.benchmarks.bench_screen [--json] [--rounds N] [--messages N]

The installed ``vibe`` runs in a pseudo terminal of 120 by 36. Its start is measured in turn with a bare Textual
application that has one input line: from exec to the first drawn key, typed before the program was there. Key latency
is from a write to the terminal to the drawn character, at rest, and while a model streams into the chat and a plan's
eight agents work beside it: once with 200 tokens per second in all, which has a bound for the processor, and once with
200 from each. If a bound is broken, the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import sysconfig
import tempfile
import termios
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from random import Random
from subprocess import Popen
from typing import Any

import msgspec

from tests.fakes.model_server import ModelServer, Received, Reply
from tests.fakes.terminal import Terminal
from vibe.core.messages import AssistantMessage, UserMessage

VIBE = Path(sysconfig.get_path("scripts")) / "vibe"
BARE = """
from textual.app import App
from textual.widgets import TextArea
class Bare(App):
    def compose(self):
        yield TextArea()
    def on_mount(self):
        self.query_one(TextArea).focus()
Bare().run()
"""
SIZE = (120, 36)
LETTERS = "бвгджзилмнптфцчшщъыьэюя"
"""Letters to type that appear nowhere else on the screen."""
AGENTS, TOKENS_PER_SECOND, TOKEN_CHARACTERS = 8, 200, 4
PARAGRAPH = 25
"""Repetitions of some words in a streamed paragraph: 600 characters."""
SECONDS = 60.0
SETTLE_SECONDS, IDLE_SECONDS, CALM = 3.0, 5.0, 0.05
BETWEEN_KEYS = (0.03, 0.18)
"""The range of the pauses between keys, in seconds. Regular keys would all meet a frame of the stream, or none."""
BOUND_START, BOUND_KEY_MS, BOUND_OPEN_S, BOUND_REQUEST_MS, BOUND_STOP_MS = 2.0, 50.0, 1.0, 30.0, 200.0
BOUND_IDLE, BOUND_BUSY, BOUND_MB = 1.0, 15.0, 120.0
TOGETHER = "200 tokens/s in all"
Figures = dict[str, list[float]]
PROVIDER = 'active_model = "m"\n[[models]]\nname = "m"\nprovider = "p"\n[[providers]]\nname = "p"\n'


@dataclass(frozen=True, slots=True)
class Person:
    """A person who types at a terminal with a program on it, and sees when something is drawn."""

    terminal: Terminal
    process: Popen[bytes]

    def seconds_to(self, keys: str, text: str) -> float:
        """Return the seconds from typing to the drawing of a new text."""
        seen = self.terminal.bytes_sent
        began = time.perf_counter()
        self.terminal.type(keys)
        return self.wait(text, seen) - began

    def wait(self, text: str, seen: int = 0) -> float:
        """Wait until a text is drawn after the first ``seen`` bytes, and return when.

        Raises:
            SystemExit: It is not drawn.
        """
        deadline = time.perf_counter() + SECONDS
        while text not in self.terminal.sent(seen):
            if time.perf_counter() > deadline or self.process.poll() is not None:
                raise SystemExit(f"no {text!r} in the last of {self.terminal.sent()[-4_000:]!r}")
            time.sleep(0.0005)
        return time.perf_counter()

    def settle(self) -> None:
        """Wait until keys are taken and everything is loaded: a second has used almost no processor time."""
        self.seconds_to(LETTERS[0], LETTERS[0])
        self.terminal.type("\x7f")
        before = -CALM
        while (now := self.processor()) - before >= CALM:
            before = now
            time.sleep(1)

    def keys(self, seconds: float) -> list[float]:
        """Return the milliseconds of each key typed within ``seconds``."""
        end, found, pauses = time.perf_counter() + seconds, list[float](), Random(0)
        for letter in cycle(LETTERS):
            if time.perf_counter() > end:
                return found
            found.append(1e3 * self.seconds_to(letter, letter))
            time.sleep(pauses.uniform(*BETWEEN_KEYS))
        return found

    def processor(self) -> float:
        """Return the seconds of processor time so far, of the process and the children it has waited for."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def megabytes(self) -> float:
        """Return the resident memory in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024


@contextmanager
def at_terminal(*words: str | Path, folder: Path, early: str = "") -> Generator[tuple[Person, float]]:
    """Run a program in a terminal, with ``early`` typed before it is there, and yield its user and its start time."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "VIBE_HOME": str(folder / "home"), "LANG": "C.UTF-8"}
    with Terminal(*SIZE) as terminal:
        mode = termios.tcgetattr(terminal.slave)
        mode[3] &= ~termios.ECHO  # or the terminal itself would draw what is typed
        termios.tcsetattr(terminal.slave, termios.TCSANOW, mode)
        terminal.type(early)
        began = time.perf_counter()
        with terminal.running(*words, cwd=folder / "work", env=env) as process:
            yield Person(terminal, process), began


def home_with(folder: Path, provider: str) -> Path:
    """Create the folders of a run, with this provider for its model."""
    (folder / "work").mkdir(parents=True)
    (folder / "home").mkdir(mode=0o700)
    (folder / "home" / "config.toml").write_text(PROVIDER + provider)
    return folder


def scripted(folder: Path, agents: Mapping[str, Any]) -> Path:
    """Create the folders of a run whose model follows a script."""
    script = folder / "script.json"
    home_with(folder, f'backend = "scripted"\nscript = "{script}"\n')
    script.write_text(json.dumps({"version": 1, "agents": agents}))
    return folder


def starts(figures: Figures, folder: Path, rounds: int) -> None:
    """Measure exec to the first key, for ours and for the bare application."""
    home = scripted(folder, {"main": {"turns": [{"text": "hello"}]}})
    bare = folder / "bare.py"
    bare.write_text(BARE)
    for _ in range(rounds):
        for name, words in (("bare Textual", (sys.executable, bare)), ("vibe", (VIBE,))):
            with at_terminal(*words, folder=home, early=LETTERS[0]) as (person, began):
                figures.setdefault(f"exec to first key, {name}, ms", []).append(1e3 * (person.wait(LETTERS[0]) - began))


def rest(figures: Figures, folder: Path) -> None:
    """Measure keys, memory and the processor while nothing happens."""
    with at_terminal(VIBE, folder=scripted(folder, {"main": {"turns": [{"text": "hello"}]}})) as (person, _):
        person.settle()
        before = person.processor()
        time.sleep(IDLE_SECONDS)
        figures["idle, % of a processor"] = [100 * (person.processor() - before) / IDLE_SECONDS]
        figures["key at rest, ms"] = person.keys(IDLE_SECONDS)
        figures["memory at rest, MB"] = [person.megabytes()]


def busy(figures: Figures, folder: Path, name: str, rate: float) -> None:
    """Measure the processor and keys while the chat's model and eight agents stream ``rate`` tokens a second each."""
    seconds = 2 * SETTLE_SECONDS + 3 * IDLE_SECONDS
    tokens = int(seconds * rate)
    words = "*some* words of `text`, " * PARAGRAPH + "\n\n"
    text = (words * (tokens * TOKEN_CHARACTERS // len(words) + 1))[: tokens * TOKEN_CHARACTERS]
    said = {"text": text, "chunk_size": TOKEN_CHARACTERS, "delay_seconds": seconds}
    home = scripted(folder, {"main": {"turns": [said]}, "*": {"turns": [said, said]}})
    steps = [{"id": f"s{number}", "title": f"Step {number}", "mode": "research"} for number in range(AGENTS)]
    plan = {"version": 1, "goal": "measure", "max_parallel_steps": AGENTS, "steps": steps}
    (home / "work" / "plan.json").write_text(json.dumps(plan))
    with at_terminal(VIBE, "--auto-approve", folder=home) as (person, _):
        person.settle()
        person.terminal.type("/plan load plan.json\r")
        person.wait("Proposed plan")
        time.sleep(1)
        person.terminal.type("a")
        person.wait(f"0/{AGENTS}")
        person.terminal.type("say much\r")
        time.sleep(SETTLE_SECONDS)
        before = person.processor()
        time.sleep(IDLE_SECONDS)
        typed = person.processor()
        figures[f"processor, {name}, %"] = [100 * (typed - before) / IDLE_SECONDS]
        figures[f"key, {name}, ms"] = person.keys(IDLE_SECONDS)
        figures[f"processor, {name} and keys, %"] = [100 * (person.processor() - typed) / IDLE_SECONDS]
        figures[f"memory, {name}, MB"] = [person.megabytes()]


def sessions(figures: Figures, folder: Path, messages: int, rounds: int) -> None:
    """Measure exec to the last message of a long session, and of one with three messages."""
    home = scripted(folder, {"main": {"turns": [{"text": "hello"}] * (rounds + 1)}})
    with at_terminal(VIBE, "-p", "begin", folder=home) as (person, _):
        person.process.wait()
    (session,) = (home / "home").rglob("messages.jsonl")
    short = session.read_bytes() + msgspec.json.encode(AssistantMessage(content="last words")) + b"\n"
    pieces = [short]
    for number in range(messages // 2):
        answer = f"The answer to {number} is **{number}**.\n\n```python\nprint({number})\n```\n" * 3
        pieces += (msgspec.json.encode(UserMessage(content=f"question {number}")), b"\n")
        pieces += (msgspec.json.encode(AssistantMessage(content=answer)), b"\n")
    pieces += (msgspec.json.encode(AssistantMessage(content="last words")), b"\n")
    for _ in range(rounds):
        for name, data in (("3", short), (f"{messages}", b"".join(pieces))):
            session.write_bytes(data)
            with at_terminal(VIBE, "-c", folder=home) as (person, began):
                took = person.wait("last words") - began
                figures.setdefault(f"exec to the end of {name} messages, s", []).append(took)
                time.sleep(SETTLE_SECONDS)
                figures[f"memory with {name} messages, MB"] = [person.megabytes()]


def requests(figures: Figures, folder: Path, rounds: int) -> None:
    """Measure Enter to the request, and Esc in a stream to its end."""
    asked: list[float] = []

    def answer(_request: Received) -> Reply:
        asked.append(time.perf_counter())
        return Reply(text="one two three", silent_after=3)

    with ModelServer(responder=answer) as server:
        home = home_with(folder, f'backend = "generic"\napi_base = "{server.api_base}"\n')
        with at_terminal(VIBE, folder=home) as (person, _):
            person.settle()
            for number in range(rounds + 1):
                seen = person.terminal.bytes_sent
                person.terminal.type(f"question {number}")
                time.sleep(0.3)
                began = time.perf_counter()
                person.terminal.type("\r")
                person.wait("one two", seen)
                time.sleep(0.3)
                stopped = person.seconds_to("\x1b", "(stopped)")
                if number:  # the first pays for what is loaded once
                    figures.setdefault("Enter to the request, ms", []).append(1e3 * (asked[-1] - began))
                    figures.setdefault("Esc to stopped, ms", []).append(1e3 * stopped)
                time.sleep(0.3)


def stolen() -> float:
    """Return the seconds of processor time that the machine's host has given to others so far."""
    return int(Path("/proc/stat").read_text().split(maxsplit=9)[8]) / os.sysconf("SC_CLK_TCK")


def measure(rounds: int, messages: int) -> Figures:
    """Measure everything."""
    figures: Figures = {}
    folder = Path(tempfile.mkdtemp(prefix="vb-"))
    began, before = time.perf_counter(), stolen()
    try:
        starts(figures, folder / "s", rounds)
        rest(figures, folder / "r")
        requests(figures, folder / "q", rounds)
        sessions(figures, folder / "l", messages, rounds)
        busy(figures, folder / "t", TOGETHER, TOKENS_PER_SECOND / (1 + AGENTS))
        busy(figures, folder / "b", "all at 200 tokens/s", TOKENS_PER_SECOND)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    figures["stolen by the machine's host, %"] = [100 * (stolen() - before) / (time.perf_counter() - began)]
    return figures


def rows_of(figures: Figures) -> list[dict[str, Any]]:
    """Return the table: what is judged, with its bound if it has one."""
    bare = statistics.median(figures["exec to first key, bare Textual, ms"])
    bounds = {
        "exec to first key, vibe, ms": BOUND_START * bare,
        "Enter to the request, ms": BOUND_REQUEST_MS,
        "Esc to stopped, ms": BOUND_STOP_MS,
        "idle, % of a processor": BOUND_IDLE,
        f"processor, {TOGETHER}, %": BOUND_BUSY,
        "memory at rest, MB": BOUND_MB,
    }
    rows: list[dict[str, Any]] = []
    for what, values in figures.items():
        row: dict[str, Any] = {"what": what, "median": statistics.median(values), "bound": bounds.get(what)}
        if what.startswith("key"):
            p99 = statistics.quantiles(values, n=100)[98]
            rows.append(row)
            row = {"what": f"{what.removesuffix(', ms')}, 99 %, ms", "median": p99, "bound": BOUND_KEY_MS}
        rows.append(row)
    short, long = (statistics.median(values) for what, values in figures.items() if what.startswith("exec to the end"))
    rows.append({"what": "of that the messages, s", "median": long - short, "bound": BOUND_OPEN_S})
    return rows


def main() -> int:
    """Measure, print, and return 1 if something is over its bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--rounds", type=int, default=5, help="starts, prompts and sessions opened")
    parser.add_argument("--messages", type=int, default=10_000, help="of the long session")
    given = parser.parse_args()
    rows = rows_of(measure(given.rounds, given.messages))
    if given.json:
        print(json.dumps(rows, indent=2))
    else:
        for row in rows:
            bound = "" if row["bound"] is None else f"    bound {row['bound']:.1f}"
            print(f"{row['what']:<45} {row['median']:>8.2f}{bound}")
    return int(any(row["bound"] is not None and row["median"] > row["bound"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
