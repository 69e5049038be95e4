"""Ports for the tests that listen over TCP."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack


def ports_in_a_row(count: int = 3) -> int:
    """The first of some ports that nobody uses; processes that ask at once look in different places."""
    for first in range(20_000 + os.getpid() % 9_000 * 4, 60_000, count):
        with ExitStack() as probes:
            try:
                for port in range(first, first + count):
                    probes.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
        return first
    raise AssertionError("no free ports")
