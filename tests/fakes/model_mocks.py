"""Model servers written by others, run as processes: ``llmock`` from Python and ``aimock`` from npm."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.fakes.npm_peers import NODE, PACKAGES
from tests.fakes.ports import free_port

AIMOCK = PACKAGES / "@copilotkit" / "aimock" / "dist" / "cli.js"


def call(url: str, body: Any = None) -> Any:
    """Call a mock's own API, with POST if there is a body."""
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(url, data=data, headers={"content-type": "application/json"})  # noqa: S310  http, ours
    with urllib.request.urlopen(asked, timeout=60) as answer:  # noqa: S310  http, ours
        return json.load(answer)


@contextmanager
def llmock(folder: Path) -> Generator[str]:
    """Run llmock and yield its root URL. Its log goes to ``folder``."""
    port = free_port()
    words = ["serve", "--port", str(port), "--tool-mode", "off", "--response-style", "static"]
    with _serving([str(Path(sys.executable).with_name("llmock")), *words], port, folder / "llmock.log"):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def aimock(folder: Path, fixtures: Sequence[dict[str, Any]]) -> Generator[str]:
    """Run aimock with the fixtures and yield its root URL. The fixtures and its log go to ``folder``."""
    port = free_port()
    file = folder / "fixtures.json"
    file.write_text(json.dumps({"fixtures": list(fixtures)}))
    with _serving([NODE, str(AIMOCK), "-p", str(port), "-f", str(file)], port, folder / "aimock.log"):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def _serving(command: Sequence[str], port: int, log: Path) -> Generator[None]:
    with log.open("wb") as sink:
        process = subprocess.Popen(command, stdout=sink, stderr=sink, stdin=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 120
            while not _listens(port):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.05)
            yield
        finally:
            process.terminate()
            process.wait(timeout=60)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
