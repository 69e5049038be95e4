"""ModelCatalog: finds configured models by name and builds the backends that call them."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping
from copy import copy
from pathlib import Path
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from vibe.core.config.models import BackendKind, ModelConfig, ProviderConfig, VibeConfig, hint_for
from vibe.core.config.paths import CONFIG_FILE
from vibe.core.config.presets import with_keys
from vibe.core.extensions import BACKENDS, make_extension
from vibe.core.llm.errors import ModelError, ModelRefusalError, ModelRequestError
from vibe.core.llm.limiter import CallLimiter, LimitedBackend, ProviderLimiter
from vibe.core.llm.port import Completion, ModelBackend, ModelObserver, ModelRequest, WrappingBackend
from vibe.core.llm.pricing import MILLION, PricedBackend, priced
from vibe.core.llm.retry import RetryingBackend, RetryPolicy
from vibe.core.messages import AssistantMessage, Image, Message, Thought, UserMessage
from vibe.system.errors import ConfigError, EnvironmentFailure, MissingKeyError, UsageError
from vibe.system.plain_text import some_of

STYLES = ("openai", "anthropic")
"""The values of a provider's ``api_style``."""
UNREACHED_BELOW_SECONDS = 30.0
"""Seconds for which the process of a single step tries a provider that it never reached.

It is longer than the usual limit, since the provider may well have answered other processes of the run."""


class ModelCatalog:
    """The models of a configuration, and one backend per provider that all agents share.

    Keys are looked up in ``environ``. ``limiter_of`` makes the limiter of a provider, by its name, if another process
    decides when calls may begin. ``retries`` is the policy for what a provider's settings leave open. ``limiters``
    are shared with other catalogs, by provider; None gives this catalog its own.
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
        usual_timeout = {"timeout_seconds": config.api_timeout}
        self._providers = {
            one.name: one if one.timeout_seconds else one.model_copy(update=usual_timeout) for one in config.providers
        }
        self._backends: dict[str, ModelBackend] = {}

    def resolve(self, alias: str | None) -> ModelConfig:
        """Return the model with this alias or name, or the active one if None.

        Raises:
            UsageError: there is no such model.
        """
        wanted = self._config.active_model if alias is None else alias
        if (found := self._config.find_model(wanted)) is not None:
            return self._with_threshold(found)
        keys = [model.key for model in self._config.models]
        known = {*keys, *(model.name for model in self._config.models)}
        otherwise = f"configured are {', '.join(map(repr, keys)) or 'none'}"
        hint = hint_for(wanted, known, otherwise)
        where = "active_model" if alias is None else "the model asked for"
        raise UsageError(f"no model {wanted!r} ({where}): {hint} (models are the [[models]] tables of {CONFIG_FILE})")

    def _with_threshold(self, model: ModelConfig) -> ModelConfig:
        """Return the model with the general compaction threshold if it has none, and a local one's context size."""
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
        """Return the same models for an agent with settings of its own, over the same connections."""
        if not settings:
            return self
        view = copy(self)
        view._config = self._config.model_copy(update=settings)  # noqa: SLF001  an instance of this class
        return view

    @property
    def warns_of_context(self) -> bool:
        """True if agents are warned when half of the room for a conversation is used."""
        return self._config.context_warnings

    def resolve_priced(self, alias: str | None) -> ModelConfig:
        """Return the model that ``resolve`` finds, with its prices, for a run that limits the cost.

        Raises:
            UsageError: there is no such model, or its price is unknown, so that the limit could not be enforced.
        """
        model = self.resolve(alias)
        found = priced(self.provider(model), model)
        if found is None:
            raise UsageError(
                f"the price of model {model.key!r} is unknown, so a price limit can't be held: "
                f"set input_price and output_price in its [[models]] table in {CONFIG_FILE}, or limit tokens instead"
            )
        return found

    def highest_token_price(self, model: ModelConfig) -> float | None:
        """Return the price in USD of the model's most expensive kind of token, or None if unknown.

        This may load the price list.
        """
        found = priced(self.provider(model), model)
        return None if found is None else max(found.highest_input_price or 0.0, found.output_price or 0.0) / MILLION

    def provider(self, model: ModelConfig) -> ProviderConfig:
        """Return the provider of a configured model; the configuration ensures that there is one."""
        return self._providers[model.provider]

    def backend(self, model: ModelConfig) -> ModelBackend:
        """Return the backend that calls the model, with retries, limits and prices.

        Raises:
            MissingKeyError: its provider needs a key that is not set.
            ConfigError: its provider is configured wrongly.
        """
        provider = self.provider(model)
        if provider.name not in self._backends:
            self._backends[provider.name] = self._wrap(provider, self._build(provider))
        return self._backends[provider.name]

    def limiter(self, provider_name: str) -> CallLimiter:
        """Return the limiter that all calls to a provider share.

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
        return PricedBackend(OmittingBackend(RetryingBackend(LimitedBackend(backend, limiter), policy)), provider)

    def _build(self, provider: ProviderConfig) -> ModelBackend:
        """Build the bare backend of a provider, importing only the module it needs."""
        if provider.backend is BackendKind.SCRIPTED:
            from vibe.core.llm.backend.scripted import ScriptedBackend

            return ScriptedBackend(_script_of(provider), provider=provider.name, slowed=provider.slowed)
        if provider.backend is BackendKind.LOCAL:
            from vibe.core.llm.backend.local import LocalBackend

            return LocalBackend(provider, self._config.local)
        key = key_of(provider, self._environ, self._config.keys_in_keyring)
        if not isinstance(provider.backend, BackendKind):
            return make_extension(BACKENDS, provider.backend, provider, key)
        if provider.api_style not in STYLES:
            known = ", ".join(map(repr, STYLES))
            problem = f"{provider.api_style!r} is not a style of this version: write one of {known}"
            raise _wrong(provider, "api_style", problem)
        provider = provider.model_copy(update={"extra_headers": filled_headers(provider, self._environ)})
        if provider.backend is BackendKind.MISTRAL:
            from vibe.core.llm.backend.mistral import MistralBackend

            return MistralBackend(provider, api_key=key)
        if provider.speaks_messages:
            from vibe.core.llm.backend.anthropic import AnthropicBackend

            return AnthropicBackend(provider, api_key=key)
        from vibe.core.llm.backend.chat import GenericBackend  # noqa: PLC0415  only once a server is asked

        return GenericBackend(provider, api_key=key)


_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def filled_headers(provider: ProviderConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """Return a provider's extra headers, with references to environment variables replaced by their values.

    Raises:
        EnvironmentFailure: a variable is not set.
    """

    def value(match: re.Match[str]) -> str:
        if match[1] not in environ:
            raise EnvironmentFailure(
                f"provider {provider.name!r} needs the environment variable {match[1]} for extra_headers: set it"
            )
        return environ[match[1]]

    return {name: _REFERENCE.sub(value, text).strip() for name, text in provider.extra_headers.items()}


def key_of(provider: ProviderConfig, environ: Mapping[str, str], keys_in_keyring: Container[str] = ()) -> str | None:
    """Return a provider's key, or None if it needs none.

    ``keys_in_keyring`` are the variables whose keys are kept in the keyring.

    Raises:
        EnvironmentFailure: the key is not set, or its value can't be a key. The message does not repeat the value.
    """
    variable = provider.api_key_env_var
    if not variable:
        return None
    key = environ.get(variable, "").strip()
    if not key:
        found = [(one.name, one.api_key_env_var) for one in with_keys(environ)]
        raise MissingKeyError(provider.name, variable, found[:1], in_keyring=variable in keys_in_keyring)
    if not (key.isascii() and key.isprintable()):
        raise EnvironmentFailure(
            f"the API key in {variable} for provider {provider.name!r} contains characters that no key has: "
            "set it again"
        )
    return key


def _script_of(provider: ProviderConfig) -> Path:
    path = Path(provider.script)
    if path.is_absolute() and path.is_file():
        return path
    problem = f"{provider.script!r} is not the absolute path of a file" if provider.script else "there is none"
    raise _wrong(provider, "script", f"{problem}: name the script to replay")


def _wrong(provider: ProviderConfig, key: str, problem: str) -> ConfigError:
    return ConfigError(CONFIG_FILE, f"providers.{provider.name}.{key}", problem)


MOST_TOOLS: Final = 128
"""The most tools in one request, from OpenAI's documentation on function calling; compatible providers do the same."""
MOST_TRIES: Final = 4
"""The most calls for one request, each without another part that was refused."""
NOT_FOUND: Final = 404
NAMES_SHOWN: Final = 5
"""The most tool names that a sentence about left-out tools lists."""
PICTURE_LEFT_OUT: Final = "(There was a picture here, which can't be shown to you.)"

Part: TypeAlias = Image | Thought | str
"""A part of a request that can be left out: an image, a thought, or a tool by its name."""

_ABOUT_THOUGHTS: Final = re.compile(r"signature|thinking|thought|reasoning", re.IGNORECASE)
_ABOUT_IMAGES: Final = re.compile(r"image|picture|vision|multi-?modal|modalit|media", re.IGNORECASE)
_ABOUT_TOOLS: Final = re.compile(r"tool|function|schema|parameter|propert|declaration", re.IGNORECASE)
_NUMBERED: Final = re.compile(r"(?:tools|functions|function_declarations)\W{1,2}(\d{1,3})", re.IGNORECASE)


class OmittingBackend(WrappingBackend):
    """A ``ModelBackend`` that repeats a refused request without the part that the refusal blames.

    If that works, the part stays left out of later requests.
    """

    _refused: frozenset[Part] = frozenset()

    async def complete(self, request: ModelRequest, observer: ModelObserver) -> Completion:
        """Stream one answer; see ``ModelBackend.complete``."""
        refused = self._refused
        for tries in range(1, MOST_TRIES + 1):
            reduced = _reduced(request, refused)
            try:
                completion = await self.inner.complete(reduced, observer)
            except (ModelRequestError, ModelRefusalError) as error:
                blamed = _parts_blamed(error, reduced)
                if not blamed or tries == MOST_TRIES:
                    raise
                refused |= blamed
            else:
                self._refused |= refused
                if reduced is request:
                    return completion
                return replace(
                    completion, oddity="; ".join(filter(None, (completion.oddity, *_omissions(request, reduced))))
                )
        raise AssertionError("unreachable")


def _reduced(request: ModelRequest, refused: frozenset[Part]) -> ModelRequest:
    """Return a request without the refused parts, and with at most ``MOST_TOOLS`` tools."""
    if not refused and len(request.tools) <= MOST_TOOLS:
        return request
    taken = [tool for tool in request.tools if tool.ends_work or tool.name not in refused]
    if len(taken) > MOST_TOOLS:
        taken = sorted(taken, key=lambda tool: not tool.ends_work)[:MOST_TOOLS]
    return replace(request, messages=[_without(message, refused) for message in request.messages], tools=taken)


def _without(message: Message, refused: frozenset[Part]) -> Message:
    """Return a message without the refused images, each replaced by a sentence, and without the refused thoughts."""
    match message:
        case UserMessage(content, images) if not refused.isdisjoint(images):
            kept = tuple(image for image in images if image not in refused)
            words = [*filter(None, [content]), *[PICTURE_LEFT_OUT] * (len(images) - len(kept))]
            return UserMessage("\n".join(words), kept)
        case AssistantMessage(thoughts=thoughts) if not refused.isdisjoint(thoughts):
            return replace(message, thoughts=tuple(one for one in thoughts if one not in refused))
        case _:
            return message


def _omissions(request: ModelRequest, reduced: ModelRequest) -> Iterator[str]:
    """Yield a sentence about each kind of part that was left out of a request."""
    refuses = f"provider {request.model.provider!r} refuses"
    changed = [old for old, new in zip(request.messages, reduced.messages, strict=True) if old is not new]
    if any(isinstance(message, UserMessage) for message in changed):
        yield f"{refuses} a picture of this conversation: it is left out"
    if any(isinstance(message, AssistantMessage) for message in changed):
        yield f"{refuses} earlier thoughts of the model: they are left out"
    passed = {tool.name for tool in reduced.tools}
    if gone := [tool.name for tool in request.tools if tool.name not in passed]:
        many = f" more than {MOST_TOOLS} tools at once, or" if len(passed) == MOST_TOOLS else ""
        yield f"{refuses}{many} tools that are left out: {some_of(gone, NAMES_SHOWN)}"


def _parts_blamed(error: ModelError, request: ModelRequest) -> frozenset[Part]:
    """Return the parts of a request that a refusal blames, as far as its wording tells."""
    words = "" if error.status in {None, NOT_FOUND} else str(error)
    thoughts = {one for each in request.messages if isinstance(each, AssistantMessage) for one in each.thoughts}
    if thoughts and _ABOUT_THOUGHTS.search(words):
        return frozenset(thoughts)
    images = {one for each in request.messages if isinstance(each, UserMessage) for one in each.images}
    if images and _ABOUT_IMAGES.search(words):
        return frozenset(images)
    if not _ABOUT_TOOLS.search(words):
        return frozenset()
    numbers = {int(number) for number in _NUMBERED.findall(words)}
    return frozenset(
        tool.name
        for number, tool in enumerate(request.tools)
        if not tool.ends_work and (number in numbers or re.search(rf"(?<![\w-]){re.escape(tool.name)}(?![\w-])", words))
    )
