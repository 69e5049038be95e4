"""Talks to Mistral's API through the ``mistralai`` client."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, cast

import anyio

from vibe.core.config.models import ProviderConfig
from vibe.core.llm.backend.assembly import AnswerBuilder
from vibe.core.llm.backend.chat_reader import chat_reader
from vibe.core.llm.backend.payload import PayloadEncoder, message_fields, mistral_call_id, wire_name
from vibe.core.llm.backend.reader import ByteResponse
from vibe.core.llm.backend.transport import CONNECT_SECONDS, address, headers_of
from vibe.core.llm.error_table import ErrorMapper
from vibe.core.llm.port import Completion, ModelObserver, ModelRequest
from vibe.core.messages import Message, ToolMessage
from vibe.core.system.http import client_options

if TYPE_CHECKING:
    from mistralai.client import Mistral

CLOSE_SECONDS: Final = 2.0
HOOKS: Final = "mistralai.client._hooks.registration"
"""The module of the SDK that says which hooks it has."""
NO_KEY: Final = "none"
"""Sent where a provider needs no key: without one the client would look for another in the environment."""


@dataclass(slots=True)
class _Exchange:
    """One call: the body and the headers to send, and the response once there is one."""

    body: bytes
    headers: dict[str, str]
    response: Any = None


_exchange: ContextVar[_Exchange] = ContextVar("mistral_exchange")
"""The call that the current task is making."""


class MistralBackend:
    """A ``ModelBackend`` over the SDK, whose own retries stay off. One pooled HTTP client.

    The SDK knows the address, the key and the headers; body and answer are written and read as for any other provider.
    The SDK's own reader drops the connection at ``[DONE]``, holds events of any size, and refuses calls in fragments.
    ``timeout_seconds`` of the provider bounds the silence between two bytes, not the whole answer.
    """

    def __init__(self, provider: ProviderConfig, *, api_key: str | None) -> None:
        self._provider = provider
        self._api_key = api_key
        self._errors = ErrorMapper(provider=provider, api_key=api_key)
        self._reader = chat_reader(self._errors, provider.reasoning_field_name)
        self._payload = PayloadEncoder(mistral_fields, {})
        self._sdk: Mistral | None = None
        self._clients: tuple[Any, Any] | None = None

    async def complete(self, request: ModelRequest, observer: ModelObserver) -> Completion:
        """Stream one answer; see ``ModelBackend.complete``."""
        sdk = self._open()
        import httpx2
        from mistralai.client.errors import MistralError, NoResponseError

        answer = AnswerBuilder(observer, self._provider.reasoning_tag)
        try:
            await self._stream(sdk, request, answer)
        except MistralError as error:
            raise self._errors.from_response(error.status_code, error.body, error.headers) from error
        except (NoResponseError, httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            # Whatever breaks after the finish reason breaks nothing: the answer is whole.
            if not answer.finished:
                raise self._errors.from_wire(error) from error
        return answer.build(request, self._errors)

    async def aclose(self) -> None:
        """Close pooled connections; the next call opens new ones."""
        clients, self._clients, self._sdk = self._clients, None, None
        if clients is not None:
            clients[0].close()
            await clients[1].aclose()

    def _open(self) -> Mistral:
        if self._sdk is None:
            import httpx2

            seconds = self._provider.silence_seconds
            hooks = {"response": [self._check]}
            timeout = httpx2.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS), pool=None)
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=self._provider.max_concurrency)
            # Both are ours, so that both can be closed; the SDK would make its own at once and load the CAs twice.
            clients = (
                httpx2.Client(**client_options(httpx2, is_async=False)),
                httpx2.AsyncClient(timeout=timeout, event_hooks=hooks, **client_options(httpx2, limits=limits)),
            )
            self._clients = clients
            self._sdk = import_sdk()(
                api_key=self._api_key or NO_KEY,
                server_url=server_url(self._provider.api_base),
                client=clients[0],
                async_client=_BodyClient(clients[1]),
                timeout_ms=int(seconds * 1000),
            )
        return self._sdk

    async def _check(self, response: ByteResponse) -> None:
        # Before the SDK sees it: that reads bodies of any size, and loses the status of an error without a body.
        await self._reader.check(response)

    async def _stream(self, sdk: Mistral, request: ModelRequest, answer: AnswerBuilder) -> None:
        exchange = _Exchange(self._payload.encode(request), headers_of(self._provider, request))
        _exchange.set(exchange)
        try:
            stream = await sdk.chat.stream_async(
                model=request.model.name,
                messages=[{"role": "user", "content": ""}],
            )
            await self._reader.read(stream.response, answer)
        finally:
            # Not the stream's own way out: a call that is cancelled inside the SDK leaves no stream to close.
            if exchange.response is not None:
                with anyio.move_on_after(CLOSE_SECONDS, shield=True):
                    await exchange.response.aclose()


class _BodyClient:
    """The HTTP client the SDK is given: it sends the body that was encoded here instead of the SDK's.

    The SDK validates and serialises the whole conversation again for each turn, which takes 70 ms at 400 messages.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def build_request(self, method: str, url: Any, **options: Any) -> Any:
        return self._inner.build_request(method, url, **(options | {"content": _exchange.get().body}))

    async def send(self, request: Any, **options: Any) -> Any:
        request.headers.update(_exchange.get().headers)  # not sooner: the SDK has a user agent of its own
        response = await self._inner.send(request, **options)
        if response.is_success:
            # It was checked, and is read here whatever it is; the SDK would refuse all but this.
            response.headers["content-type"] = "text/event-stream"
        _exchange.get().response = response
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


def import_sdk() -> type[Mistral]:
    """The SDK's client without the hooks of its own, which take a quarter of the time to import it.

    They trace requests, encrypt workflows, and set an account and a name of the client, which come from us.
    """
    if HOOKS not in sys.modules:
        sys.modules[HOOKS] = without = ModuleType(HOOKS)
        without.__dict__["init_hooks"] = _no_hooks
        try:
            from mistralai.client import Mistral
        except ImportError:  # an SDK that is laid out otherwise: then with all it has
            for name in [name for name in sys.modules if name.partition(".")[0] == "mistralai"]:
                del sys.modules[name]
        else:
            return Mistral
        finally:
            sys.modules.pop(HOOKS, None)
    from mistralai.client import Mistral

    return Mistral


def _no_hooks(_hooks: object) -> None:
    """Register none."""


def server_url(api_base: str) -> str:
    """Return what the SDK wants: ``api_base`` without the version path that it adds itself."""
    return address(api_base).removesuffix("/v1").rstrip("/")


def mistral_fields(message: Message) -> dict[str, Any]:
    """One message as Mistral takes it: ids of nine characters, results with the tool's name."""
    fields = message_fields(message)
    if isinstance(message, ToolMessage):
        return fields | {"tool_call_id": mistral_call_id(fields["tool_call_id"]), "name": wire_name(message.name)}
    for call in cast("Sequence[dict[str, Any]]", fields.get("tool_calls", ())):
        call["id"] = mistral_call_id(call["id"])
    return fields
