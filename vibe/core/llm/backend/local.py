"""Runs a model on this machine: a server of ours, asked as any other, with a schema in place of tools."""

from __future__ import annotations

import threading

from anyio import to_thread

from vibe.core.config.models import LocalConfig, ProviderConfig
from vibe.core.llm.backend.call_schema import TurnObserver, encoded, rebuilt
from vibe.core.llm.backend.chat_reader import ChatStreamReader
from vibe.core.llm.backend.http import HttpBackend
from vibe.core.llm.backend.local_server import LocalModelError, LocalServer, LocalServers, local_servers
from vibe.core.llm.error_table import ErrorMapper
from vibe.core.llm.errors import ModelAccessError
from vibe.core.llm.port import Completion, ModelObserver, ModelRequest


class LocalBackend:
    """A ``ModelBackend`` over a model file. Its server is started with the first call and stopped by ``aclose``.

    A server that has died is started again with the next call. ``servers`` are those of this process.
    """

    def __init__(self, provider: ProviderConfig, settings: LocalConfig, servers: LocalServers | None = None) -> None:
        self._provider = provider
        self._settings = settings
        self._servers = servers or local_servers()
        self._lock = threading.Lock()
        self._server: LocalServer | None = None
        self._asked: HttpBackend | None = None

    async def complete(self, request: ModelRequest, observer: ModelObserver) -> Completion:
        """Stream one answer; see ``ModelBackend.complete``."""
        asked = await to_thread.run_sync(self._ready, abandon_on_cancel=True)
        if not request.tools:
            return await asked.complete(request, observer)
        return rebuilt(await asked.complete(request, TurnObserver(observer)))

    async def aclose(self) -> None:
        """Stop the server, unless others of this process use it."""
        asked, self._asked = self._asked, None
        if asked is not None:
            await asked.aclose()
        await to_thread.run_sync(self._let_go)

    def _ready(self) -> HttpBackend:
        """Return what asks the server, which runs then. Blocks.

        Raises:
            ModelAccessError: the model can't be served.
        """
        with self._lock:
            if self._server is not None and not self._server.is_alive:
                self._leave()
            if self._server is None or self._asked is None:
                try:
                    self._server = self._servers.acquire(self._settings, self._provider.silence_seconds)
                except LocalModelError as error:
                    raise ModelAccessError(str(error), provider=self._provider.name) from error
                self._asked = self._asking(self._server)
            return self._asked

    def _asking(self, server: LocalServer) -> HttpBackend:
        provider = self._provider.model_copy(update={"api_base": f"{server.address}/v1"})
        errors = ErrorMapper(provider=provider, api_key=server.token)
        return HttpBackend(
            provider,
            errors,
            urls=[f"{server.address}/v1/chat/completions"],
            # It may drop a connection that it kept open after a stream, just as the next request is sent.
            headers={"authorization": f"Bearer {server.token}", "connection": "close"},
            encode=encoded,
            reader=ChatStreamReader(errors, provider.reasoning_field_name),
        )

    def _let_go(self) -> None:
        with self._lock:
            self._leave()

    def _leave(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            self._servers.release(server)
