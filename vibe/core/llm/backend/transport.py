"""Basics of the HTTP backends: timeouts, trust, and a cheap way to import httpx."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, Final, cast

from vibe import __version__
from vibe.core.config.models import ProviderConfig
from vibe.core.llm.port import ModelRequest

USER_AGENT: Final = f"vibe/{__version__}"
CONNECT_SECONDS: Final = 30.0
"""The longest a connection may take, however patient the provider's ``timeout_seconds`` is."""


def headers_of(provider: ProviderConfig, request: ModelRequest) -> dict[str, str]:
    """Return a request's headers besides those of the protocol; names in lower case, the user's win."""
    own = {"user-agent": USER_AGENT, **request.extra_headers}
    return own | {name.lower(): value for name, value in provider.extra_headers.items()}


def system_tls() -> Any:
    """A TLS context that trusts what the system trusts, company CAs included."""
    import ssl  # noqa: PLC0415  only needed once a provider is called

    import truststore

    return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def import_httpx() -> Any:
    """The httpx module, without its command line: that one drags in click, rich and pygments (0.2 s)."""
    fresh = "httpx" not in sys.modules
    if fresh:
        sys.modules["httpx._main"] = cast("ModuleType", None)
    try:
        import httpx
    finally:
        if fresh:
            sys.modules.pop("httpx._main", None)
    return httpx
