"""Talks to any server that speaks OpenAI's chat completions."""

from __future__ import annotations

from vibe.core.config.models import ProviderConfig
from vibe.core.llm.backend.http import HttpBackend
from vibe.core.llm.backend.payload import PayloadEncoder
from vibe.core.llm.backend.reader import ChatStreamReader
from vibe.core.llm.error_table import ErrorMapper


class GenericBackend(HttpBackend):
    """A ``ModelBackend`` for OpenAI-compatible servers."""

    def __init__(self, provider: ProviderConfig, *, api_key: str | None) -> None:
        errors = ErrorMapper(provider=provider, api_key=api_key)
        super().__init__(
            provider,
            errors,
            url=provider.api_base.rstrip("/") + "/chat/completions",
            headers={"authorization": f"Bearer {api_key}"} if api_key else {},
            encode=PayloadEncoder().encode,
            reader=ChatStreamReader(errors, provider.reasoning_field_name),
        )
