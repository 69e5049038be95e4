"""Known providers: what ``preset = "NAME"`` in a ``[[providers]]`` table stands for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from vibe.core.config.models import DEFAULT_PROVIDERS, BackendKind, ProviderConfig
from vibe.system.errors import UsageError
from vibe.system.plain_text import closest, did_you_mean

_LISTED: Final = (
    *DEFAULT_PROVIDERS,
    ProviderConfig(name="openai", api_base="https://api.openai.com/v1", api_key_env_var="OPENAI_API_KEY"),
    ProviderConfig(
        name="anthropic",
        backend=BackendKind.ANTHROPIC,
        api_base="https://api.anthropic.com/v1",
        api_key_env_var="ANTHROPIC_API_KEY",
    ),
    ProviderConfig(
        name="openrouter",
        api_base="https://openrouter.ai/api/v1",
        api_key_env_var="OPENROUTER_API_KEY",
        reasoning_field_name="reasoning",
    ),
    ProviderConfig(
        name="deepseek",
        api_base="https://api.deepseek.com/v1",
        api_key_env_var="DEEPSEEK_API_KEY",
        returns_reasoning=True,
    ),
    ProviderConfig(
        name="groq",
        api_base="https://api.groq.com/openai/v1",
        api_key_env_var="GROQ_API_KEY",
        reasoning_field_name="reasoning",
    ),
    ProviderConfig(
        name="zai", api_base="https://api.z.ai/api/paas/v4", api_key_env_var="ZAI_API_KEY", returns_reasoning=True
    ),
    ProviderConfig(name="huggingface", api_base="https://router.huggingface.co/v1", api_key_env_var="HF_TOKEN"),
    ProviderConfig(
        name="gemini",
        api_base="https://generativelanguage.googleapis.com/v1beta/openai",
        api_key_env_var="GEMINI_API_KEY",
    ),
    ProviderConfig(name="ollama", api_base="http://localhost:11434/v1", reasoning_field_name="reasoning"),
    ProviderConfig(name="vllm", api_base="http://localhost:8000/v1"),
    ProviderConfig(name="lmstudio", api_base="http://localhost:1234/v1"),
)
PRESETS: Final[Mapping[str, ProviderConfig]] = {provider.name: provider for provider in _LISTED}


class PresetError(ValueError):
    """An entry can't be filled in; ``field`` is the one at fault."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(problem)
        self.field = field


def filled(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry of ``[[providers]]`` with what its preset says and it does not; one without a preset as it is.

    Raises:
        PresetError: there is no such preset, or its key would go to another host.
    """
    name = entry.get("preset")
    if name is None:
        return dict(entry)
    if not isinstance(name, str) or name not in PRESETS:
        hint = did_you_mean(closest(str(name), PRESETS), _choice(PRESETS))
        raise PresetError("preset", f"unknown preset {name!r}: {hint}")
    preset = PRESETS[name]
    base = entry.get("api_base", preset.api_base)
    if preset.api_key_env_var and "api_key_env_var" not in entry and _host(base) != _host(preset.api_base):
        problem = (
            f"is not the server of {name!r}, the only one to get {preset.api_key_env_var}: set api_key_env_var "
            "to the variable of this server's key, or to '' if it takes none"
        )
        raise PresetError("api_base", problem)
    return {**preset.model_dump(mode="json", exclude_unset=True), **entry}


def provider_named(name: str, configured: Iterable[ProviderConfig]) -> ProviderConfig:
    """Return the configured provider of that name, else the preset.

    Raises:
        UsageError: there is neither.
    """
    known = {**PRESETS, **{provider.name: provider for provider in configured}}
    if name not in known:
        raise UsageError(f"unknown provider {name!r}: {did_you_mean(closest(name, known), _choice(known))}")
    return known[name]


def _choice(names: Iterable[str]) -> str:
    return f"choose from {', '.join(names)}"


def _host(address: object) -> str:
    """Scheme, host and port: keys go to all of a server, and to nothing else."""
    try:
        parts = urlsplit(str(address))
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc}".lower()
