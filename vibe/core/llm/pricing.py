"""PricedBackend: adds the cost to completions, from configured prices or else from the bundled price list."""

from __future__ import annotations

from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

import anyio.to_thread
from msgspec.structs import replace

from vibe.core.config.models import BackendKind, ModelConfig, ProviderConfig
from vibe.core.llm.port import Completion, ModelObserver, ModelRequest, WrappingBackend
from vibe.core.messages import Usage
from vibe.system.racing import bare_task_group

MILLION: Final = 1_000_000
SHORT_PROMPT: Final = 1_000
"""Tokens of a prompt so short that no provider charges its price for long prompts."""
_LOCAL_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0", ""})  # noqa: S104  compared, not bound


class ListedModel(ModelConfig):
    """A model with the highest prices that the list has for it.

    They serve to reserve budget; the actual cost of a call is looked up in the list.
    """


def configured_cost(model: ModelConfig, usage: Usage) -> float | None:
    """Return the cost in USD by the configured prices; None unless those of input and output are set."""
    if model.input_price is None or model.output_price is None:
        return None
    plain = usage.prompt_tokens - usage.cached_tokens - usage.cache_written_tokens
    prices = (
        (plain, model.input_price),
        (usage.cached_tokens, model.input_price if model.cached_input_price is None else model.cached_input_price),
        (usage.cache_written_tokens, model.input_price if model.cache_write_price is None else model.cache_write_price),
        (usage.completion_tokens, model.output_price),
    )
    return sum(tokens * price for tokens, price in prices) / MILLION


def _with_cost(completion: Completion, known: float | None) -> Completion:
    """Return the completion with its cost: the provider's figure unless that is 0 or missing, else ``known``.

    A provider that knows no price may report 0.
    """
    reported = completion.cost_usd
    return replace(completion, cost_usd=known if not reported and known is not None else reported)


def is_listed(provider: ProviderConfig) -> bool:
    """Return whether a public price list may know the provider, which is never one on this machine."""
    if provider.backend is BackendKind.SCRIPTED:
        return False
    with suppress(ValueError):
        return (urlsplit(provider.api_base).hostname or "") not in _LOCAL_HOSTS
    return False


def listed_cost(provider: ProviderConfig, model: ModelConfig, usage: Usage) -> float | None:
    """Return the cost in USD by the price list; None if the list does not know the provider or the model.

    Cached tokens have their own price. The first call loads the list, which takes about 0.4 s: call it in a worker
    thread. Nothing is fetched from the network.
    """
    import genai_prices

    tokens = genai_prices.Usage(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        cache_read_tokens=min(usage.cached_tokens, usage.prompt_tokens),
        cache_write_tokens=min(usage.cache_written_tokens, usage.prompt_tokens),
    )
    with suppress(LookupError, ValueError):
        return float(genai_prices.calc_price(tokens, model.name, provider_api_url=provider.api_base).total_price)
    return None


def usual_prices(provider: ProviderConfig, model: ModelConfig) -> tuple[float, float] | None:
    """Return the USD per million input and output tokens of a short prompt; None if unknown.

    They are the configured prices, else those of the list, which this may load as ``listed_cost`` does.
    """
    if model.input_price is not None and model.output_price is not None:
        return model.input_price, model.output_price
    if not is_listed(provider):
        return None
    sent, received = Usage(prompt_tokens=SHORT_PROMPT), Usage(completion_tokens=SHORT_PROMPT)
    costs = listed_cost(provider, model, sent), listed_cost(provider, model, received)
    if costs[0] is None or costs[1] is None:
        return None
    return costs[0] * MILLION / SHORT_PROMPT, costs[1] * MILLION / SHORT_PROMPT


class PricedBackend(WrappingBackend):
    """Wraps a backend and adds the cost to its completions unless the provider reports it.

    An unknown cost stays None, never 0. The price list loads in a worker thread while the first call runs.
    """

    _provider: ProviderConfig
    _loaded: bool = False

    async def complete(self, request: ModelRequest, observer: ModelObserver) -> Completion:
        """Call the inner backend, then add the cost."""
        model = request.model
        is_priced = not isinstance(model, ListedModel) and configured_cost(model, Usage()) is not None
        if is_priced or not is_listed(self._provider):
            completion = await self.inner.complete(request, observer)
            return _with_cost(completion, configured_cost(model, completion.usage))
        completion = await self._complete_while_loading(request, observer)
        return _with_cost(completion, listed_cost(self._provider, model, completion.usage))

    async def _complete_while_loading(self, request: ModelRequest, observer: ModelObserver) -> Completion:
        """Call the inner backend, loading the price list meanwhile if that has not been done."""
        if self._loaded:
            return await self.inner.complete(request, observer)
        async with bare_task_group() as group:
            group.start_soon(self._load, request.model)
            return await self.inner.complete(request, observer)
        raise AssertionError("unreachable")

    async def _load(self, model: ModelConfig) -> None:
        await anyio.to_thread.run_sync(listed_cost, self._provider, model, Usage(), abandon_on_cancel=True)
        self._loaded = True


def priced(provider: ProviderConfig, model: ModelConfig) -> ModelConfig | None:
    """Return the model with prices: its own, else the highest of the list; None if unknown. May load the list.

    The highest prices count because prices may rise with the length of a prompt, and cache writes may cost more.
    """
    if model.input_price is not None and model.output_price is not None:
        return model
    size = min(model.context_size, MILLION)
    usages = (
        Usage(prompt_tokens=size),
        Usage(prompt_tokens=size, cache_written_tokens=size),
        Usage(prompt_tokens=size, completion_tokens=MILLION),
    )
    costs = [listed_cost(provider, model, usage) for usage in usages] if is_listed(provider) else [None]
    known = [cost for cost in costs if cost is not None]
    if len(known) < len(usages):
        return None
    plain, written, whole = known
    prices = {"input_price": max(plain, written) * MILLION / size, "output_price": whole - plain}
    return ListedModel.model_validate(model.model_dump() | prices)
