"""Talks to any server that speaks OpenAI's chat completions."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from vibe.core.config.models import ProviderConfig
from vibe.core.llm.backend.chat import PayloadEncoder, chat_reader, message_fields, openai_body
from vibe.core.llm.backend.http import HttpBackend
from vibe.core.llm.backend.transport import address, versioned
from vibe.core.llm.error_table import ErrorMapper

CALL: Final = "chat/completions"
OPENAI: Final = "https://api.openai.com"


class GenericBackend(HttpBackend):
    """A ``ModelBackend`` for OpenAI-compatible servers."""

    def __init__(self, provider: ProviderConfig, *, api_key: str | None) -> None:
        errors = ErrorMapper(provider=provider, api_key=api_key)
        super().__init__(
            provider,
            urls=[address(base, CALL) for base in (provider.api_base, versioned(provider.api_base))],
            headers={"authorization": f"Bearer {api_key}"} if api_key else {},
            encode=encoder_for(provider, errors.endpoint).encode,
            reader=chat_reader(errors, provider.reasoning_field_name),
        )


def encoder_for(provider: ProviderConfig, endpoint: str) -> PayloadEncoder:
    """Return what words requests to a provider at this endpoint."""
    field = provider.reasoning_field_name if provider.returns_reasoning else ""
    adapt = openai_body if endpoint == OPENAI else dict[str, Any]
    return PayloadEncoder(partial(message_fields, reasoning_field=field), adapt=adapt)
