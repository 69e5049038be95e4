"""Finds configured models and builds what reaches them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from vibe.core.config.models import BackendKind, ModelConfig, ProviderConfig, VibeConfig
from vibe.core.config.paths import CONFIG_FILE
from vibe.core.extensions import BACKENDS, make_extension
from vibe.core.llm.backend.transport import filled_headers, key_of
from vibe.core.llm.limiter import CallLimiter, LimitedBackend, ProviderLimiter
from vibe.core.llm.port import ModelBackend
from vibe.core.llm.pricing import MILLION, PricedBackend, priced
from vibe.core.llm.retry import RetryingBackend, RetryPolicy
from vibe.core.llm.sparing import SparingBackend
from vibe.system.errors import ConfigError, UsageError
from vibe.system.plain_text import closest, did_you_mean

STYLES = ("openai", "anthropic")
UNREACHED_BELOW_SECONDS = 30.0
"""For how long a provider is tried that was never reached, in a process of one step: others may have been answered."""


class ModelCatalog:
    """The models of a configuration. Backends are shared: one a provider, however many agents use it.

    ``environ`` is where keys are looked up. ``limiter_of`` a provider's name is what lets its calls begin, where that
    is not this catalog's own doing. ``retries`` is the usual policy, for what a provider's settings leave open.
    ``limiters`` are those of all catalogs that share them, by provider; None: they are this catalog's own.
    """

    def __init__(
        self,
        config: VibeConfig,
        environ: Mapping[str, str],
        limiter_of: Callable[[str], CallLimiter] | None = None,
        retries: RetryPolicy | None = None,
        limiters: dict[str, CallLimiter] | None = None,
    ) -> None:
        self._config = config
        self._limiter_of = limiter_of
        usual = retries or RetryPolicy()
        self._retries = usual if limiter_of is None else replace(usual, unreached_seconds=UNREACHED_BELOW_SECONDS)
        self._limiters = {} if limiters is None else limiters
        self._environ = environ
        self._providers = {provider.name: _patient(provider, config.api_timeout) for provider in config.providers}
        self._backends: dict[str, ModelBackend] = {}

    def resolve(self, alias: str | None) -> ModelConfig:
        """The model with this alias or name; None: the active one.

        Raises:
            UsageError: there is none.
        """
        wanted = self._config.active_model if alias is None else alias
        by_key = {model.name: model for model in reversed(self._config.models)}
        by_key |= {model.key: model for model in reversed(self._config.models)}
        if wanted in by_key:
            return self._with_threshold(by_key[wanted])
        keys = [model.key for model in self._config.models]
        close = closest(wanted, by_key, most=3, cutoff=0.5)
        hint = did_you_mean(close, f"configured are {_quoted(keys) or 'none'}")
        where = "active_model" if alias is None else "the model asked for"
        raise UsageError(f"no model {wanted!r} ({where}): {hint} (models are the [[models]] tables of {CONFIG_FILE})")

    def _with_threshold(self, model: ModelConfig) -> ModelConfig:
        """Return the model, with the settings of all models where it has none of its own."""
        wanted = model.auto_compact_threshold
        threshold = self._config.auto_compact_threshold if wanted is None else wanted
        if threshold:
            threshold = max(1, int(threshold * self._config.memory_soft_limit_ratio))
        fields: dict[str, Any] = {"auto_compact_threshold": threshold}
        provider = self._providers.get(model.provider)
        if provider is not None and provider.backend is BackendKind.LOCAL:
            fields["context_size"] = self._config.local.context
        return model.model_copy(update=fields)

    def adjusted(self, settings: Mapping[str, Any]) -> ModelCatalog:
        """The same models for an agent with settings of its own, over the same connections."""
        if not settings:
            return self
        view = copy(self)
        view._config = self._config.model_copy(update=settings)  # noqa: SLF001  of its own class
        return view

    @property
    def warns_of_context(self) -> bool:
        """True if agents are told once half of the room for a conversation is used."""
        return self._config.context_warnings

    def resolve_priced(self, alias: str | None) -> ModelConfig:
        """The model as ``resolve`` finds it, with its prices filled in, for a run that limits the price.

        Raises:
            UsageError: there is no such model, or its price is unknown, so that the limit could not be held.
        """
        model = self.resolve(alias)
        found = priced(self.provider(model), model)
        if found is None:
            raise UsageError(
                f"the price of model {model.key!r} is unknown, so a price limit can't be held: "
                f"set input_price and output_price in its [[models]] table in {CONFIG_FILE}, or limit tokens instead"
            )
        return found

    def dearest_token(self, model: ModelConfig) -> float | None:
        """Return the price in USD of one of its dearest tokens, None: unknown; may load the price list."""
        found = priced(self.provider(model), model)
        return None if found is None else max(found.highest_input_price or 0.0, found.output_price or 0.0) / MILLION

    def provider(self, model: ModelConfig) -> ProviderConfig:
        """Return who serves a model.

        Raises:
            ConfigError: no provider has that name.
        """
        if model.provider in self._providers:
            return self._providers[model.provider]
        known = _quoted(list(self._providers)) or "none"
        problem = f"no provider {model.provider!r}: configured in [[providers]] are {known}"
        raise ConfigError(CONFIG_FILE, f"models.{model.key}.provider", problem)

    def backend(self, model: ModelConfig) -> ModelBackend:
        """Return what reaches the model: retried, limited and priced.

        Raises:
            MissingKeyError: its provider needs a key that is not set.
            ConfigError: its provider is configured wrongly.
        """
        provider = self.provider(model)
        if provider.name not in self._backends:
            self._backends[provider.name] = self._wrap(provider, self._build(provider))
        return self._backends[provider.name]

    def limiter(self, provider_name: str) -> CallLimiter:
        """Return what lets calls to a provider begin, one for all who call it.

        Raises:
            KeyError: no provider has that name.
        """
        if provider_name not in self._limiters:
            make = self._limiter_of or self._own_limiter
            self._limiters[provider_name] = make(provider_name)
        return self._limiters[provider_name]

    def _own_limiter(self, provider_name: str) -> CallLimiter:
        provider = self._providers[provider_name]
        return ProviderLimiter(max_concurrency=provider.max_concurrency, max_pause_seconds=provider.retry_max_seconds)

    async def aclose(self) -> None:
        """Close all connections."""
        backends, self._backends = self._backends, {}
        for backend in backends.values():
            await backend.aclose()

    def _wrap(self, provider: ProviderConfig, backend: ModelBackend) -> ModelBackend:
        limiter = self.limiter(provider.name)
        policy = replace(self._retries, max_total_seconds=provider.retry_max_seconds)
        return PricedBackend(SparingBackend(RetryingBackend(LimitedBackend(backend, limiter), policy)), provider)

    def _build(self, provider: ProviderConfig) -> ModelBackend:
        if provider.backend is BackendKind.SCRIPTED:
            from vibe.core.llm.backend.scripted import ScriptedBackend

            return ScriptedBackend(_script_of(provider), provider=provider.name)
        if provider.backend is BackendKind.LOCAL:
            from vibe.core.llm.backend.local import LocalBackend

            return LocalBackend(provider, self._config.local)
        key = key_of(provider, self._environ, self._config.keys_in_keyring)
        if not isinstance(provider.backend, BackendKind):
            return make_extension(BACKENDS, provider.backend, provider, key)
        if provider.api_style not in STYLES:
            problem = f"{provider.api_style!r} is no style of this version: write one of {_quoted(list(STYLES))}"
            raise _wrong(provider, "api_style", problem)
        if not provider.api_base.startswith(("http://", "https://")):
            raise _wrong(provider, "api_base", f"{provider.api_base!r} is no http:// or https:// address")
        provider = provider.model_copy(update={"extra_headers": filled_headers(provider, self._environ)})
        if provider.backend is BackendKind.MISTRAL:
            from vibe.core.llm.backend.mistral import MistralBackend

            return MistralBackend(provider, api_key=key)
        if provider.speaks_messages:
            from vibe.core.llm.backend.anthropic import AnthropicBackend

            return AnthropicBackend(provider, api_key=key)
        from vibe.core.llm.backend.generic import GenericBackend

        return GenericBackend(provider, api_key=key)


def _patient(provider: ProviderConfig, seconds: float) -> ProviderConfig:
    """The provider with a timeout, if need be that of all."""
    return provider.model_copy(update={"timeout_seconds": provider.timeout_seconds or seconds})


def _script_of(provider: ProviderConfig) -> Path:
    path = Path(provider.script)
    if path.is_absolute() and path.is_file():
        return path
    problem = f"{provider.script!r} is no absolute path of a file" if provider.script else "there is none"
    raise _wrong(provider, "script", f"{problem}: name the script to replay")


def _wrong(provider: ProviderConfig, key: str, problem: str) -> ConfigError:
    return ConfigError(CONFIG_FILE, f"providers.{provider.name}.{key}", problem)


def _quoted(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names)
