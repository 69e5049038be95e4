"""A network whose names lead where the test says, and whose every connection ends at a server of the test's own."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from typing import Any

import httpcore

PUBLIC = "93.184.216.34"


class FakeNetwork:
    """Hosts lead to ``names`` (one answer a look-up, the last for ever); connections go to ``port`` of this machine."""

    def __init__(self, port: int, names: Mapping[str, Sequence[Sequence[str]]], trust: ssl.SSLContext | None = None):
        self.port = port
        self.looked_up: list[str] = []
        self.connected: list[tuple[str, int]] = []
        self._names = {host: list(answers) for host, answers in names.items()}
        self._trust = trust

    async def resolve(self, host: str) -> Sequence[str]:
        """The next answer about a host."""
        self.looked_up.append(host)
        if host not in self._names:
            raise OSError(f"{host} is not known")
        answers = self._names[host]
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def connect(self, address: str, port: int) -> Any:
        """Note what was asked for, and connect to the test's server."""
        self.connected.append((address, port))
        backend: Any = httpcore.AnyIOBackend()
        return await backend.connect_tcp("127.0.0.1", self.port, timeout=5)

    def tls(self) -> ssl.SSLContext:
        """Trust the test's certificate, or nobody."""
        return self._trust or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
