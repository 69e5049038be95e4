"""MistralBackend: calls Mistral's API through the ``mistralai`` SDK."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
from msgspec import Struct

from vibe.core.config.models import ProviderConfig
from vibe.core.llm.backend.chat import ChunkTaker, PayloadEncoder, message_fields, mistral_call_id, wire_name
from vibe.core.llm.backend.http import HttpBackend, address
from vibe.core.llm.error_table import ErrorMapper
from vibe.core.messages import Message, ToolMessage

if TYPE_CHECKING:
    from mistralai.client import Mistral

CLOSE_SECONDS: Final = 2.0
"""The most seconds that closing a response may take."""
HOOKS: Final = "mistralai.client._hooks.registration"
"""The module of the SDK that registers its hooks."""
NO_KEY: Final = "none"
"""The key sent if a provider needs none: without one the client would look for a key in the environment."""


class _Exchange(Struct):
    """One call: the body and headers to send, and the response once it has arrived, with its own type of content."""

    body: bytes
    headers: dict[str, str]
    response: Any = None
    content_type: str = ""


_exchange: ContextVar[_Exchange] = ContextVar("mistral_exchange")
"""The call that the current task is making."""


class MistralBackend(HttpBackend):
    """A ``ModelBackend`` over the SDK, whose own retries stay off.

    The SDK supplies the address, the key and the headers. The body is written and the answer read as for any other
    provider, because the SDK's own reader drops the connection at ``[DONE]``, holds events of any size, and refuses
    tool calls that come in fragments.
    """

    def __init__(self, provider: ProviderConfig, *, api_key: str | None) -> None:
        super().__init__(
            errors=ErrorMapper(provider=provider, api_key=api_key),
            urls=[server_url(provider.api_base)],
            headers={},
            encode=PayloadEncoder(mistral_fields, {}).encode,
            taker=ChunkTaker,
        )

    def _connect(self) -> Any:
        return _SdkClient(self.errors, super()._connect(), self.check)


class _SdkClient:
    """Wraps the SDK as the streaming client of ``HttpBackend``, and is itself the HTTP client that the SDK uses.

    That way it sends our body instead of the SDK's, which validates and serialises the whole conversation again for
    each turn and takes 70 ms at 400 messages.
    """

    def __init__(self, errors: ErrorMapper, inner: Any, check: Callable[[Any], Awaitable[None]]) -> None:
        import httpx2

        self._inner = inner
        self._check = check
        self._sdk = import_sdk()(
            api_key=errors.api_key or NO_KEY,
            server_url=server_url(errors.provider.api_base),
            client=httpx2.Client(transport=httpx2.BaseTransport()),  # unused; its own would load certificates
            async_client=self,
        )

    @asynccontextmanager
    async def stream(self, _method: str, _url: str, *, content: bytes, headers: dict[str, str]) -> AsyncGenerator[Any]:
        """Stream the answer to a request.

        Raises:
            ModelError: there is no answer, or it reports a failure.
        """
        exchange = _Exchange(content, headers)
        _exchange.set(exchange)
        try:
            chat = self._sdk.chat
            stream = await chat.stream_async(model=NO_KEY, messages=[{"role": "user", "content": ""}])
            stream.response.headers["content-type"] = exchange.content_type
            yield stream.response
        finally:
            # Close the response, not the stream: a call that is cancelled inside the SDK leaves no stream to close.
            if exchange.response is not None:
                with anyio.move_on_after(CLOSE_SECONDS, shield=True):
                    await exchange.response.aclose()

    def build_request(self, method: str, url: Any, **options: Any) -> Any:
        """Build the SDK's request with our body and limits of time: the SDK has one for all, connecting included."""
        ours = {"content": _exchange.get().body, "timeout": self._inner.timeout}
        return self._inner.build_request(method, url, **(options | ours))

    async def send(self, request: Any, **options: Any) -> Any:
        """Send a request and check the response before the SDK sees it.

        The SDK would read error bodies of any size, and lose the status of an error without a body.
        """
        exchange = _exchange.get()
        request.headers.update(exchange.headers)  # only here, since the SDK sets a user agent of its own
        exchange.response = response = await self._inner.send(request, **options)
        await self._check(response)
        exchange.content_type = response.headers.get("content-type", "")
        # The only type and status that the SDK accepts. We read any.
        response.headers["content-type"], response.status_code = "text/event-stream", 200
        return response

    async def aclose(self) -> None:
        """Close all connections."""
        await self._inner.aclose()


def import_sdk() -> type[Mistral]:
    """Import the SDK's client without its hooks, which take a quarter of the time to import it.

    The hooks trace requests, encrypt workflows, and set an account and a client name, which come from us.
    """
    if HOOKS not in sys.modules:
        sys.modules[HOOKS] = without = ModuleType(HOOKS)
        without.__dict__["init_hooks"] = _no_hooks
        try:
            from mistralai.client import Mistral
        except ImportError:  # a version of the SDK with another layout: import it with its hooks
            for name in [name for name in sys.modules if name.partition(".")[0] == "mistralai"]:
                del sys.modules[name]
        else:
            return Mistral
        finally:
            sys.modules.pop(HOOKS, None)
    from mistralai.client import Mistral

    return Mistral


def _no_hooks(_hooks: object) -> None:
    """Register no hooks."""


def server_url(api_base: str) -> str:
    """Return ``api_base`` without the version path, which the SDK adds itself."""
    return address(api_base).removesuffix("/v1").rstrip("/")


def mistral_fields(message: Message) -> dict[str, Any]:
    """Return one message as Mistral wants it: with ids of nine characters, and tool names in results."""
    fields = message_fields(message)
    if isinstance(message, ToolMessage):
        return fields | {"tool_call_id": mistral_call_id(fields["tool_call_id"]), "name": wire_name(message.name)}
    for call in cast("Sequence[dict[str, Any]]", fields.get("tool_calls", ())):
        call["id"] = mistral_call_id(call["id"])
    return fields
