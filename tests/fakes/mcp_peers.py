"""MCP servers to talk to: well-behaved and faulty ones of our own, and the reference servers from npm."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.fakes.npm_peers import NODE, PACKAGES
from vibe.core.config.models import McpServerConfig, McpTransport

PEN = (sys.executable, str(Path(__file__).with_name("mcp_server.py")))
FAULTY = (sys.executable, str(Path(__file__).with_name("mcp_faulty.py")))
EVERYTHING = (NODE, str(PACKAGES / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"))
FILESYSTEM = (NODE, str(PACKAGES / "@modelcontextprotocol" / "server-filesystem" / "dist" / "index.js"))


def over_stdio(name: str, *argv: str, **fields: Any) -> McpServerConfig:
    """Return the configuration of a server that is run as a command, with a timeout that suits a busy machine."""
    fields.setdefault("startup_timeout_sec", 30.0)
    return McpServerConfig(name=name, transport=McpTransport.STDIO, command=argv, **fields)


def over_http(name: str, url: str, **fields: Any) -> McpServerConfig:
    """Return the configuration of a server that is reached at a URL."""
    fields.setdefault("startup_timeout_sec", 30.0)
    return McpServerConfig(name=name, transport=McpTransport.STREAMABLE_HTTP, url=url, **fields)


@contextmanager
def http_server(*argv: str, port: int, environ: dict[str, str] | None = None) -> Generator[str]:
    """Run a server, and yield its endpoint once it listens on ``port``."""
    process = subprocess.Popen(argv, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while not _listens(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{argv} does not listen on port {port}")
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def left_over(mark: str) -> list[str]:
    """Return the command lines of running processes that contain ``mark``."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        try:
            line = (
                (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if entry.name.isdigit()
                else ""
            )
        except OSError:
            continue
        if mark in line:
            found.append(line)
    return found
