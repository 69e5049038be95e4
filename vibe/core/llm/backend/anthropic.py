"""Talks to Anthropic's Messages API, and to whoever else speaks it."""

from __future__ import annotations

from typing import Final

from vibe.core.config.models import ProviderConfig
from vibe.core.llm.backend.http import HttpBackend
from vibe.core.llm.backend.messages_payload import MessagesEncoder
from vibe.core.llm.backend.messages_reader import MessagesStreamReader
from vibe.core.llm.backend.transport import address, versioned
from vibe.core.llm.error_table import ErrorMapper

VERSION: Final = "2023-06-01"
"""The version of the API that every request names; there has been no later one."""


class AnthropicBackend(HttpBackend):
    """A ``ModelBackend`` for the Messages API. ``api_base`` may end with the version path or before it."""

    def __init__(self, provider: ProviderConfig, *, api_key: str | None) -> None:
        errors = ErrorMapper(provider=provider, api_key=api_key)
        super().__init__(
            provider,
            errors,
            urls=[address(versioned(provider.api_base), "messages")],
            headers=headers_for(api_key),
            encode=MessagesEncoder().encode,
            reader=MessagesStreamReader(errors),
        )


def headers_for(api_key: str | None) -> dict[str, str]:
    """Return what every request to the API says of its version and of who asks."""
    return {"anthropic-version": VERSION} | ({"x-api-key": api_key} if api_key else {})
