"""Servers and backends for the tests of this folder."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Protocol

import pytest

from tests.fakes.model_server import ModelServer, Shape
from vibe.core.config.models import BackendKind, ProviderConfig
from vibe.core.llm.backend.anthropic import AnthropicBackend
from vibe.core.llm.backend.chat import GenericBackend
from vibe.core.llm.backend.mistral import MistralBackend
from vibe.core.llm.port import ModelBackend

KEY = "sk-integration-key"
BACKENDS: dict[BackendKind, tuple[Shape, Callable[..., ModelBackend]]] = {
    BackendKind.MISTRAL: ("mistral", MistralBackend),
    BackendKind.GENERIC: ("openai", GenericBackend),
    BackendKind.ANTHROPIC: ("anthropic", AnthropicBackend),
}
"""All backends that speak HTTP, and the style in which a server answers them."""


class Connect(Protocol):
    """Builds a backend of the kind under test for an ``api_base``, and closes it after the test."""

    def __call__(self, api_base: str, *, timeout_seconds: float = 100.0, **settings: Any) -> ModelBackend: ...


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the proxy settings of the machine that runs the tests."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture(params=list(BACKENDS))
def kind(request: pytest.FixtureRequest) -> BackendKind:
    """Return each kind of backend that speaks HTTP."""
    return BackendKind(request.param)


@pytest.fixture
def server(kind: BackendKind) -> Iterator[ModelServer]:
    """Run a model server that answers as the backend under test expects."""
    with ModelServer(BACKENDS[kind][0]) as running:
        yield running


@pytest.fixture
async def connect(kind: BackendKind) -> AsyncIterator[Connect]:
    """Yield a function that builds backends; see ``Connect``."""
    opened: list[ModelBackend] = []
    build = BACKENDS[kind][1]

    def open_backend(api_base: str, *, timeout_seconds: float = 100.0, **settings: Any) -> ModelBackend:
        provider = ProviderConfig(
            name="acme",
            backend=kind,
            api_base=api_base,
            api_key_env_var="ACME_KEY",
            timeout_seconds=timeout_seconds,
            **settings,
        )
        opened.append(build(provider, api_key=KEY))
        return opened[-1]

    yield open_backend
    for backend in opened:
        await backend.aclose()
