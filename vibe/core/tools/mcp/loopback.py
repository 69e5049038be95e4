"""The address on this machine to which a browser brings the answer of a sign-in, once."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from urllib.parse import parse_qsl, urlsplit

from anyio import BrokenResourceError, EndOfStream, Event, create_task_group, create_tcp_listener, move_on_after
from anyio.abc import SocketAttribute, SocketStream

HOST = "127.0.0.1"
PATH = "/callback"
LARGEST_REQUEST = 16 * 1024
REQUEST_SECONDS = 10.0
ARRIVED = "The answer has arrived: go back to the terminal, which says whether you are signed in."
TWICE = "This sign-in has been answered already. Nothing was changed."
FOREIGN = "This answer belongs to another sign-in. Nothing was changed."
NOTHING = "There is nothing here but the end of a sign-in."


class Loopback:
    """Waits for the one answer that carries ``state``; every other is turned away, and ``notice`` told so."""

    def __init__(self, notice: Callable[[str], None]) -> None:
        self.redirect_uri = ""
        self.state = ""
        self._notice = notice
        self._answer: Mapping[str, str] = {}
        self._answered = Event()

    @asynccontextmanager
    async def listening(self, port: int) -> AsyncGenerator[Loopback]:
        """Listen while the block runs; port 0: any that is free.

        Raises:
            OSError: the port is taken.
        """
        async with await create_tcp_listener(local_host=HOST, local_port=port) as listener:
            taken = listener.extra_attributes[SocketAttribute.local_port]()
            self.redirect_uri = f"http://{HOST}:{taken}{PATH}"
            async with create_task_group() as group:
                group.start_soon(listener.serve, self._serve)
                try:
                    yield self
                finally:
                    group.cancel_scope.cancel()

    async def answer(self) -> Mapping[str, str]:
        """Wait for the fields of the answer."""
        await self._answered.wait()
        return self._answer

    async def _serve(self, stream: SocketStream) -> None:
        with move_on_after(REQUEST_SECONDS):
            try:
                async with stream:
                    await self._exchange(stream)
            except (BrokenResourceError, EndOfStream, ValueError):
                pass  # whoever asked has gone, or speaks something else; an answer that came is kept
        if self._answer:
            self._answered.set()

    async def _exchange(self, stream: SocketStream) -> None:
        parts = urlsplit(await _target_of(stream))
        status, text = self._met(parts.path, dict(parse_qsl(parts.query)))
        lines = (
            f"HTTP/1.1 {status}",
            "Content-Type: text/plain; charset=utf-8",
            "Cache-Control: no-store",
            f"Content-Length: {len(text) + 1}",
            "Connection: close",
        )
        await stream.send("\r\n".join((*lines, "", f"{text}\n")).encode())

    def _met(self, path: str, fields: Mapping[str, str]) -> tuple[str, str]:
        """Return the status and the text for a request; the first answer that fits is kept."""
        if path != PATH or not ({"code", "error"} & fields.keys()):
            return "404 Not Found", NOTHING
        given = fields.get("state", "")
        if not self.state or not secrets.compare_digest(given.encode(), self.state.encode()):
            self._notice("an answer that belongs to another sign-in was turned away")
            return "400 Bad Request", FOREIGN
        if self._answer:
            return "409 Conflict", TWICE
        self._answer = fields
        return "200 OK", ARRIVED


async def _target_of(stream: SocketStream) -> str:
    """Return the target of a GET request; empty for any other."""
    request = b""
    while b"\r\n\r\n" not in request and len(request) < LARGEST_REQUEST:
        request += await stream.receive()
    method, _, rest = request.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    return rest.partition(" ")[0] if method == "GET" else ""
