"""The known providers that ``preset = "NAME"`` in a ``[[providers]]`` table refers to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from vibe.core.config.models import DEFAULT_PROVIDERS, BackendKind, ProviderConfig, hint_for
from vibe.system.errors import UsageError, closest, did_you_mean

_SERVERS: Final[Mapping[str, tuple[str, str, Mapping[str, Any]]]] = {
    "openai": ("https://api.openai.com/v1", "OPENAI_API_KEY", {}),
    "anthropic": ("https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", {"backend": BackendKind.ANTHROPIC}),
    "openrouter": ("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", {"reasoning_field_name": "reasoning"}),
    "deepseek": ("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", {"returns_reasoning": True}),
    "groq": ("https://api.groq.com/openai/v1", "GROQ_API_KEY", {"reasoning_field_name": "reasoning"}),
    "zai": ("https://api.z.ai/api/paas/v4", "ZAI_API_KEY", {"returns_reasoning": True}),
    "huggingface": ("https://router.huggingface.co/v1", "HF_TOKEN", {}),
    "gemini": ("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY", {}),
    "ollama": ("http://localhost:11434/v1", "", {"reasoning_field_name": "reasoning"}),
    "vllm": ("http://localhost:8000/v1", "", {}),
    "lmstudio": ("http://localhost:1234/v1", "", {}),
}
"""By name: the address, the key's variable (empty if no key is sent), and other settings that differ from defaults."""


def _preset(name: str) -> ProviderConfig:
    address, variable, more = _SERVERS[name]
    key = {"api_key_env_var": variable} if variable else {}
    return ProviderConfig(name=name, api_base=address, **key, **more)


PRESETS: Final[Mapping[str, ProviderConfig]] = {
    provider.name: provider for provider in (*DEFAULT_PROVIDERS, *map(_preset, _SERVERS))
}


def with_keys(environ: Mapping[str, str]) -> list[ProviderConfig]:
    """Return the known providers whose keys are set."""
    return [one for one in PRESETS.values() if environ.get(one.api_key_env_var, "").strip()]


class PresetError(ValueError):
    """An entry can't be completed; ``field`` is the field at fault."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(problem)
        self.field = field


def filled(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry of ``[[providers]]`` with the fields it leaves to its preset; without a preset it is unchanged.

    Raises:
        PresetError: there is no such preset, or its key would be sent to another host.
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
    """Return the configured provider with this name, else the preset.

    Raises:
        UsageError: there is neither.
    """
    known = {**PRESETS, **{provider.name: provider for provider in configured}}
    if name not in known:
        raise UsageError(f"unknown provider {name!r}: {hint_for(name, known, _choice(known))}")
    return known[name]


def _choice(names: Iterable[str]) -> str:
    return f"choose from {', '.join(names)}"


def _host(address: object) -> str:
    """Return scheme, host and port of an address, which must match for a key to be sent there."""
    try:
        parts = urlsplit(str(address))
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc}".lower()
