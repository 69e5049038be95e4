"""``@`` completion among 100 000 paths: ms per key, and how soon a key is seen while a search runs.

``python -m tests.benchmarks.bench_tui_completion [--json]`` exits with 1 if keys are seen late. The reference's
figures, printed beside ours, were measured on a quiet machine with 2 processors.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import random
import select
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from textual.app import App, ComposeResult

from vibe.cli.textual_ui.input.file_index import FileIndex
from vibe.cli.textual_ui.input.prompt_input import PromptInput

PATHS = 100_000
KEYS = 200
ECHO_BOUND_MS = 16.0
QUERIES = ("prompt_input", "confhand", "src/core/ut", "tstmodel", "zzzz", "e", "readme", "services/api/routes")
WORDS = [
    "api", "app", "auth", "base", "cache", "chat", "cli", "client", "config", "core", "data", "db", "docs",
    "engine", "events", "file", "form", "graph", "handler", "helper", "http", "index", "input", "item", "job",
    "json", "kernel", "list", "loader", "log", "main", "map", "menu", "model", "module", "net", "node", "option",
    "page", "parser", "plan", "prompt", "query", "queue", "reader", "route", "schema", "server", "service",
    "session", "shell", "state", "step", "store", "style", "table", "task", "test", "text", "theme", "token",
    "tool", "tree", "user", "util", "value", "view", "widget", "worker",
]  # fmt: skip
REFERENCE = {
    "building the index": "220 ms, letters alone",
    "first letter, p50": "13-79 ms without pauses",
    "key seen, alone": "2.6 ms, p99 9",
    "key seen while matching": "4 ms, p99 11; without pauses 23, p99 34",
}


def paths() -> list[str]:
    """Return names like those of real projects, always the same ones."""
    dice = random.Random(7)
    made: dict[str, None] = {}
    while len(made) < PATHS:
        folders = "/".join(dice.choices(WORDS, k=dice.randint(1, 5)))
        name = "_".join(dice.choices(WORDS, k=dice.randint(1, 3)))
        made[f"{folders}/{name}{dice.choice(('.py', '.ts', '.md', '.json', '.test.ts'))}"] = None
    return sorted(made)


def never() -> bool:
    return False


def built() -> FileIndex:
    """Build an index of all of them."""
    known = paths()
    index = FileIndex(Path("/nowhere"), lambda _root, _is_stale: known)
    index.refresh(never)
    return index


class EchoStage(App[None]):
    """The input alone, with a thread that searches for one file after another if ``is_matching``."""

    def __init__(self, *, is_matching: bool) -> None:
        super().__init__()
        self._is_matching = is_matching
        self._is_over = False

    def compose(self) -> ComposeResult:
        yield PromptInput()

    def on_mount(self) -> None:
        self.query_one(PromptInput).focus()
        if self._is_matching:
            threading.Thread(target=self._match, daemon=True).start()

    def on_unmount(self) -> None:
        self._is_over = True

    def _match(self) -> None:
        index = built()
        self.call_from_thread(self.query_one(PromptInput).set_text, "·")
        while not self._is_over:
            for query in QUERIES:
                index.search("\0", 1, never)  # so that the next query does not extend the last one
                index.search(query, 50, lambda: self._is_over)


def timed(act: Callable[[], object]) -> float:
    """Return the milliseconds that a call takes."""
    start = time.perf_counter()
    act()
    return (time.perf_counter() - start) * 1000


def searched(index: FileIndex) -> tuple[list[float], list[float]]:
    """Return the milliseconds of each query's first letter, and of all later letters."""
    first: list[float] = []
    more: list[float] = []
    for query in QUERIES:
        index.search("\0", 1, never)
        for length in range(1, len(query) + 1):
            taken = timed(lambda typed=query[:length]: index.search(typed, 50, never))
            (first if length == 1 else more).append(taken)
    return first, more


def echoed(*words: str) -> list[float]:
    """Return the milliseconds from each key to the first bytes of its echo, on a terminal of its own."""
    master, slave = pty.openpty()
    argv = [sys.executable, "-m", "tests.benchmarks.bench_tui_completion", *words]
    environ = {**os.environ, "TERM": "xterm-256color", "LINES": "36", "COLUMNS": "120"}
    with subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, env=environ, start_new_session=True) as child:
        os.close(slave)
        try:
            _read_until(master, "·" if "--matching" in words else ">")
            return [_key_seen(master, key) for key in ("a", "\x7f") * (KEYS // 2)]
        finally:
            child.kill()
            os.close(master)


def _read_until(master: int, mark: str) -> None:
    seen = b""
    while mark.encode() not in seen:
        if not select.select([master], [], [], 60)[0]:
            raise TimeoutError(f"no {mark!r} on the screen after 60 s")
        seen += os.read(master, 65_536)


def _key_seen(master: int, key: str) -> float:
    while select.select([master], [], [], 0.05)[0]:
        os.read(master, 65_536)
    start = time.perf_counter()
    os.write(master, key.encode())
    select.select([master], [], [], 10)
    return (time.perf_counter() - start) * 1000


def figures() -> dict[str, float]:
    """Return everything that is measured, in milliseconds."""
    index = FileIndex(Path("/nowhere"), lambda _root, _is_stale: known)
    known = paths()
    found = {"building the index": timed(lambda: index.refresh(never))}
    first, more = searched(index)
    alone, matching = echoed("--echo"), echoed("--echo", "--matching")
    for name, values in {
        "first letter": first,
        "a letter more": more,
        "key seen, alone": alone,
        "key seen while matching": matching,
    }.items():
        ranked = sorted(values)
        found[f"{name}, p50"] = statistics.median(ranked)
        found[f"{name}, p99"] = ranked[min(len(ranked) - 1, round(0.99 * len(ranked)))]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--echo", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--matching", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.echo:
        EchoStage(is_matching=args.matching).run(mouse=False)
        return 0
    found = figures()
    if args.json:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            beside = REFERENCE.get(name) or REFERENCE.get(name.removesuffix(", p50"), "")
            print(f"{name:28} {value:8.1f} ms   {beside}")
    return int(found["key seen while matching, p99"] > ECHO_BOUND_MS)


if __name__ == "__main__":
    sys.exit(main())
