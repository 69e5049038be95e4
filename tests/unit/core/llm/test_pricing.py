"""A cost is right or unknown, never made up."""

from __future__ import annotations

import sys

import pytest
from msgspec.structs import replace

from tests.fakes.llm_ports import ListBackend, MemoryObserver, completion, request
from vibe.core.config.models import DEFAULT_PROVIDERS, BackendKind, ModelConfig, ProviderConfig
from vibe.core.llm.errors import ModelRequestError
from vibe.core.llm.pricing import PricedBackend, configured_cost, is_listed, listed_cost, priced, usual_prices
from vibe.core.messages import Usage

MISTRAL = DEFAULT_PROVIDERS[0]
LOCAL = ProviderConfig(name="local", api_base="http://127.0.0.1:8080/v1")
USAGE = Usage(prompt_tokens=1_000_000, completion_tokens=500_000, cached_tokens=400_000, calls=1)


def model(name: str = "m", input_price: float | None = None, output_price: float | None = None) -> ModelConfig:
    return ModelConfig(name=name, provider="p", input_price=input_price, output_price=output_price)


@pytest.mark.parametrize(
    ("input_price", "output_price", "cost"),
    [(2.0, 6.0, 5.0), (0.0, 0.0, 0.0), (None, 6.0, None), (2.0, None, None), (None, None, None)],
)
def test_configured_prices_are_per_million_tokens(
    input_price: float | None, output_price: float | None, cost: float | None
) -> None:
    assert configured_cost(model("m", input_price, output_price), USAGE) == cost


@pytest.mark.parametrize(
    ("cached", "write", "cost"),
    [(None, None, 2.0), (0.1, None, 1.64), (0.0, None, 1.6), (None, 2.5, 2.15), (0.1, 2.5, 1.79), (3.0, 0.0, 2.7)],
)
def test_what_a_cache_gives_and_takes_has_prices_of_its_own(
    cached: float | None, write: float | None, cost: float
) -> None:
    prices = {"cached_input_price": cached, "cache_write_price": write}
    usage = Usage(1_000_000, 500_000, 400_000, 1, cache_written_tokens=100_000)

    assert configured_cost(model("m", 1.0, 2.0).model_copy(update=prices), usage) == pytest.approx(cost)


def test_a_reservation_minds_what_is_put_into_a_cache() -> None:
    assert model("m", 1.0, 2.0).highest_input_price == 1.0
    assert model("m", 1.0, 2.0).model_copy(update={"cache_write_price": 1.25}).highest_input_price == 1.25
    assert model("m").model_copy(update={"cache_write_price": 1.25}).highest_input_price is None


@pytest.mark.parametrize(
    ("said", "own", "cost"),
    [(0.5, None, 0.5), (0.5, 1.0, 0.5), (0.0, 1.0, 2.0), (0.0, None, 0.0), (None, 1.0, 2.0), (None, None, None)],
)
async def test_a_cost_that_the_provider_says_comes_first(
    said: float | None, own: float | None, cost: float | None
) -> None:
    answer = replace(completion("x"), cost_usd=said, usage=Usage(1_000_000, 500_000, 0, 1))
    wanted = replace(request(), model=model("m", own, 2.0 if own else None))

    found = await PricedBackend(ListBackend([answer]), LOCAL).complete(wanted, MemoryObserver())
    assert found.cost_usd == cost


@pytest.mark.parametrize("base", ["http://localhost:1/v1", "http://127.0.0.1/v1", "http://[::1]:9/v1", "", "http://[/"])
def test_a_provider_on_this_machine_is_not_looked_up(base: str) -> None:
    assert not is_listed(ProviderConfig(name="p", api_base=base))


def test_a_script_is_not_looked_up_and_a_public_provider_is() -> None:
    assert not is_listed(ProviderConfig(name="p", backend=BackendKind.SCRIPTED, api_base="https://api.mistral.ai"))
    assert is_listed(MISTRAL)


def test_the_list_knows_the_default_model_and_makes_cached_tokens_cheaper() -> None:
    full = listed_cost(MISTRAL, model("devstral-2512"), Usage(1_000_000, 0, 0, 1))
    cached = listed_cost(MISTRAL, model("devstral-2512"), Usage(1_000_000, 0, 1_000_000, 1))
    assert full is not None
    assert cached is not None
    assert 0 < cached < full < 50


def test_what_is_put_into_a_cache_costs_what_the_list_says() -> None:
    anthropic = ProviderConfig(name="anthropic", api_base="https://api.anthropic.com/v1")
    plain = listed_cost(anthropic, model("claude-sonnet-4-5"), Usage(1_000, 0, 0, 1))
    written = listed_cost(anthropic, model("claude-sonnet-4-5"), Usage(1_000, 0, 0, 1, cache_written_tokens=1_000))
    assert plain is not None
    assert written == pytest.approx(1.25 * plain)


@pytest.mark.parametrize(
    ("provider", "name"),
    [(MISTRAL, "no-such-model-of-theirs"), (ProviderConfig(name="x", api_base="https://gateway.example/v1"), "gpt-5")],
)
def test_what_the_list_does_not_know_is_unknown(provider: ProviderConfig, name: str) -> None:
    assert listed_cost(provider, model(name), USAGE) is None


async def test_completions_carry_their_cost() -> None:
    backend = PricedBackend(ListBackend([completion(usage=USAGE), completion(usage=USAGE)]), MISTRAL)
    listed = await backend.complete(request(model=model("devstral-2512")), MemoryObserver())
    assert listed.cost_usd == pytest.approx(listed_cost(MISTRAL, model("devstral-2512"), USAGE))
    configured = await backend.complete(request(model=model("devstral-2512", 1.0, 2.0)), MemoryObserver())
    assert configured.cost_usd == 2.0


async def test_an_unknown_cost_is_none_and_costs_no_import() -> None:
    loaded = "genai_prices" in sys.modules
    backend = PricedBackend(ListBackend([completion(usage=USAGE)]), LOCAL)
    assert (await backend.complete(request(), MemoryObserver())).cost_usd is None
    assert ("genai_prices" in sys.modules) == loaded


async def test_an_error_passes_as_it_is_while_the_list_loads() -> None:
    inner = ListBackend([ModelRequestError("no")])
    backend = PricedBackend(inner, MISTRAL)
    with pytest.raises(ModelRequestError):
        await backend.complete(request(model=model("devstral-2512")), MemoryObserver())
    await backend.aclose()
    assert inner.closed


async def test_a_limited_price_reserves_the_highest_and_books_what_the_list_says() -> None:
    anthropic = ProviderConfig(name="anthropic", api_base="https://api.anthropic.com/v1")
    short, long = (
        model("claude-sonnet-4-5").model_copy(update={"context_size": size}) for size in (128_000, 1_000_000)
    )
    limited, dear = priced(anthropic, short), priced(anthropic, long)
    assert limited is not None
    assert dear is not None
    assert (limited.input_price, limited.output_price) == (pytest.approx(3.75), pytest.approx(15.0))
    assert (dear.input_price, dear.output_price) == (pytest.approx(7.5), pytest.approx(22.5))

    usage = Usage(100_000, 1_000, 90_000, 1)
    backend = PricedBackend(ListBackend([completion(usage=usage)]), anthropic)
    told = await backend.complete(request(model=limited), MemoryObserver())
    assert told.cost_usd == pytest.approx(listed_cost(anthropic, short, usage))
    reserved = configured_cost(limited, usage)
    assert reserved is not None
    assert told.cost_usd is not None
    assert told.cost_usd < reserved


def test_prices_of_ones_own_stay_and_without_any_there_are_none() -> None:
    own = model("devstral-2512", 1.0, 2.0)
    assert priced(MISTRAL, own) is own
    assert priced(LOCAL, model()) is None
    assert priced(MISTRAL, model("no-such-model-of-theirs")) is None


def test_the_usual_prices_are_those_of_a_short_prompt() -> None:
    assert usual_prices(LOCAL, model("m", 0.0, 2.0)) == (0.0, 2.0)
    assert usual_prices(LOCAL, model("devstral-2512")) is None
    assert usual_prices(MISTRAL, model("no-such-model-of-theirs")) is None
    found = usual_prices(MISTRAL, model("devstral-2512"))
    whole = Usage(prompt_tokens=1_000_000, calls=1), Usage(completion_tokens=1_000_000, calls=1)
    assert found == pytest.approx([listed_cost(MISTRAL, model("devstral-2512"), usage) for usage in whole])
