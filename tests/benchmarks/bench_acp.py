"""An editor's agent: how soon it answers `initialize`, opens a session, and passes on the model's first token.

    python -m tests.benchmarks.bench_acp [--rounds N] [--json]

The editor speaks the protocol by hand, so that no library of its own is measured. The first token is counted from when
the model's server has read the request and begins to answer. Medians are printed beside their bounds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

from tests.fakes.mcp_client import RawClient
from tests.fakes.model_server import ModelServer, Received, Reply

VIBE_ACP = Path(sysconfig.get_path("scripts")) / "vibe-acp"
INITIALIZE_MS, FIRST_UPDATE_MS = 500.0, 50.0
CONFIG = """active_model = "m"
[[providers]]
name = "served"
backend = "generic"
api_base = "{url}"
[[models]]
name = "m"
provider = "served"
"""
FIGURES = ("initialize_ms", "session_ms", "later_session_ms", "first_update_ms", "later_first_update_ms")


class Editor:
    """An editor whose agent is a new process."""

    def __init__(self, home: Path, folder: Path) -> None:
        self._folder = str(folder)
        environ = {"PATH": os.environ["PATH"], "HOME": str(home), "VIBE_HOME": str(home)}
        self._client = RawClient([str(VIBE_ACP)], environ, str(folder))
        self._number = 0

    def initialize(self) -> None:
        """Initialize the connection."""
        self._ask("initialize", protocolVersion=1)
        self._answer()

    def session(self) -> str:
        """Open a session and return its id."""
        self._ask("session/new", cwd=self._folder, mcpServers=[])
        return self._answer()["sessionId"]

    def prompt(self, session: str) -> float:
        """Have a prompt answered, and return the time at which its first word arrived."""
        self._ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "go"}])
        while "agent_message_chunk" not in json.dumps(self._client.hear()):
            pass
        came = time.perf_counter()
        self._answer()
        return came

    def close(self) -> None:
        """End the agent."""
        self._client.close()

    def _ask(self, method: str, **params: object) -> None:
        self._number += 1
        self._client.say(id=self._number, method=method, params=params)

    def _answer(self) -> dict[str, str]:
        while (heard := self._client.hear()).get("id") != self._number or "method" in heard:
            pass
        return heard["result"]


def measured(home: Path, folder: Path, answered: list[float]) -> list[float]:
    """Return the milliseconds of one round, for each name in ``FIGURES``."""
    began = time.perf_counter()
    editor = Editor(home, folder)
    try:
        editor.initialize()
        initialized = time.perf_counter()
        session = editor.session()
        opened = time.perf_counter()
        editor.session()
        again = time.perf_counter()
        updates = [editor.prompt(session) - answered[-1] for _ in range(2)]
    finally:
        editor.close()
    return [1000 * took for took in (initialized - began, opened - initialized, again - opened, *updates)]


def main() -> int:
    """Measure, print, and return 1 if a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="how often each (default: 10)")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    given = parser.parse_args()
    answered: list[float] = []

    def respond(_: Received) -> Reply:
        answered.append(time.perf_counter())
        return Reply(text="done")

    with tempfile.TemporaryDirectory() as name, ModelServer(responder=respond) as server:
        home, folder = Path(name) / "home", Path(name) / "work"
        home.mkdir()
        folder.mkdir()
        (home / "config.toml").write_text(CONFIG.format(url=server.api_base))
        rounds = [measured(home, folder, answered) for _ in range(given.rounds)]
    medians: dict[str, float] = {
        figure: round(statistics.median(one[at] for one in rounds), 1) for at, figure in enumerate(FIGURES)
    }
    bounds: dict[str, float] = {
        "initialize_ms": INITIALIZE_MS,
        "first_update_ms": FIRST_UPDATE_MS,
        "later_first_update_ms": FIRST_UPDATE_MS,
    }
    load = os.getloadavg()[0]
    if given.json:
        print(json.dumps({"load": round(load, 1), **medians, "bounds": bounds}))
    else:
        print(f"load {load:.1f}")
        for figure, value in medians.items():
            print(f"{figure:<24}{value:>9}  {f'bound {bounds[figure]}' if figure in bounds else ''}")
    return int(any(medians[figure] > bound for figure, bound in bounds.items()))


if __name__ == "__main__":
    sys.exit(main())
