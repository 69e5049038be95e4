"""A fake network: the test decides what names resolve to, and every connection ends at a server of the test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import httpcore

PUBLIC = "93.184.216.34"


class FakeNetwork:
    """Resolves hosts by ``names``, and connects everything to ``port`` on this machine.

    Each look-up of a host takes its next answer; the last one is repeated.
    """

    def __init__(self, port: int, names: Mapping[str, Sequence[Sequence[str]]]):
        self.port = port
        self.looked_up: list[str] = []
        self.connected: list[tuple[str, int]] = []
        self._names = {host: list(answers) for host, answers in names.items()}

    async def resolve(self, host: str) -> Sequence[str]:
        """Return the next answer for a host."""
        self.looked_up.append(host)
        if host not in self._names:
            raise OSError(f"{host} is not known")
        answers = self._names[host]
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def connect(self, address: str, port: int) -> Any:
        """Record the requested address, and connect to the test's server."""
        self.connected.append((address, port))
        backend: Any = httpcore.AnyIOBackend()
        return await backend.connect_tcp("127.0.0.1", self.port, timeout=5)
