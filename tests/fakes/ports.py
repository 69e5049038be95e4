"""Free ports for tests that listen on TCP."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack

FIRST, LAST = 20_000, 32_000
"""Below the range from which systems assign ports to clients, so that a port that was free a moment ago stays free."""
BLOCK = 24


def ports_in_a_row(count: int = 3) -> int:
    """Return the first of ``count`` adjacent unused ports.

    Processes that ask at the same time look in different places.
    """
    start = os.getpid() * BLOCK % (LAST - FIRST)
    for offset in range(0, LAST - FIRST, count):
        first = FIRST + (start + offset) % (LAST - FIRST)
        with ExitStack() as probes:
            try:
                for port in range(first, first + count):
                    probes.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
        return first
    raise AssertionError("no free ports")


def free_port() -> int:
    """Return an unused port."""
    return ports_in_a_row(1)
