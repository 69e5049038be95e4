from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import anyio
import pytest
from hypothesis import given, settings, strategies as st

from subagents.agent.budget import Account, Limits
from vibe.core.budget import BudgetExhaustedError
from vibe.core.config.models import ModelConfig
from vibe.core.messages import Usage

MODEL = ModelConfig(name="m", provider="p", input_price=1.0, output_price=10.0)


def used(prompt: int, completion: int) -> Usage:
    return Usage(prompt, completion, 0, 1)


async def test_an_answer_is_capped_to_what_is_left() -> None:
    account = Account("run", Limits(max_tokens=1_000))

    reservation = await account.reserve(MODEL, prompt_tokens=400, wanted_tokens=8_000)

    assert reservation.max_completion_tokens == 600


async def test_a_step_is_held_to_its_plans_remainder() -> None:
    plan = Account("plan", Limits(max_tokens=1_000))
    plan.book(used(700, 100), 0.0)
    step = plan.open("step", Limits(max_tokens=50_000))

    reservation = await step.reserve(MODEL, prompt_tokens=50, wanted_tokens=8_000)

    assert reservation.max_completion_tokens == 150


async def test_a_price_limit_holds_for_models_whose_answers_cost_nothing() -> None:
    account = Account("run", Limits(max_price=0.02))
    account.book(used(20_001, 100), 0.020001)

    with pytest.raises(BudgetExhaustedError, match="max_price"):
        await account.reserve(MODEL.model_copy(update={"output_price": 0.0}), prompt_tokens=100, wanted_tokens=1_000)

    free = MODEL.model_copy(update={"input_price": 0.0, "output_price": 0.0})
    assert (await account.reserve(free, prompt_tokens=100, wanted_tokens=1_000)).max_completion_tokens == 1_000


async def test_what_is_settled_is_spent_here_and_above() -> None:
    plan = Account("plan", Limits())
    step = plan.open("step", Limits())

    (await step.reserve(MODEL, 10, 100)).settle(used(10, 20), 0.5)

    assert plan.usage == step.usage == used(10, 20)
    assert plan.cost_usd == step.cost_usd == 0.5


async def test_an_unknown_price_stays_unknown() -> None:
    account = Account("run", Limits())

    (await account.reserve(MODEL, 10, 100)).settle(used(1, 1), None)
    (await account.reserve(MODEL, 10, 100)).settle(used(1, 1), 0.5)

    assert account.cost_usd is None


async def test_nothing_left_says_whose_budget_it_was() -> None:
    plan = Account("the plan", Limits(max_tokens=1_000))
    plan.book(used(990, 0), 0.0)
    step = plan.open("step 'a'", Limits(max_tokens=5_000))

    with pytest.raises(BudgetExhaustedError, match=r"the plan .*max_tokens 1000.*990 tokens"):
        await step.reserve(MODEL, prompt_tokens=5, wanted_tokens=100)


async def test_a_price_limit_caps_the_answer() -> None:
    account = Account("run", Limits(max_price=0.01))

    reservation = await account.reserve(MODEL, prompt_tokens=1_000, wanted_tokens=8_000)

    assert reservation.max_completion_tokens == 900  # $0.01 less $0.001 for the prompt, at $10 a million
    reservation.settle(used(1_000, 900), 0.01)
    with pytest.raises(BudgetExhaustedError, match="max_price"):
        await account.reserve(MODEL, prompt_tokens=10, wanted_tokens=100)


async def test_a_call_waits_for_what_others_hold_and_may_give_back() -> None:
    plan = Account("plan", Limits(max_tokens=1_000))
    first = await plan.open("a", Limits()).reserve(MODEL, 100, 900)
    granted: list[int] = []

    async def second() -> None:
        reservation = await plan.open("b", Limits()).reserve(MODEL, 100, 900)
        granted.append(reservation.max_completion_tokens)

    async with anyio.create_task_group() as group:
        group.start_soon(second)
        await anyio.wait_all_tasks_blocked()
        assert granted == []
        first.settle(used(100, 50), 0.0)

    assert granted == [750]


async def test_releasing_twice_gives_back_once() -> None:
    plan = Account("plan", Limits(max_tokens=1_000))
    reservation = await plan.reserve(MODEL, 50, 200)
    await plan.reserve(MODEL, 50, 50)

    reservation.release()
    reservation.release()

    assert (await plan.reserve(MODEL, 100, 600)).max_completion_tokens == 600


async def test_a_call_rather_waits_than_takes_a_corner() -> None:
    plan = Account("plan", Limits(max_tokens=4_000))
    first = await plan.reserve(MODEL, 100, 1_500)
    granted: list[int] = []

    async def second() -> None:
        granted.append((await plan.reserve(MODEL, 100, 8_000)).max_completion_tokens)

    async with anyio.create_task_group() as group:
        group.start_soon(second)
        await anyio.wait_all_tasks_blocked()
        assert granted == []  # although 700 tokens would be free
        first.settle(used(100, 100), 0.0)

    assert granted == [3_700]


@pytest.mark.parametrize("seed", range(5))
async def test_whatever_the_fan_out_a_tree_never_spends_more_than_its_limit(seed: int) -> None:
    dice = random.Random(seed)
    plan = Account("plan", Limits(max_tokens=20_000))

    async def agent(name: str) -> None:
        account = plan.open(name, Limits(max_tokens=3_000))
        while True:
            prompt = dice.randint(10, 400)
            try:
                reservation = await account.reserve(MODEL, prompt, 500)
            except BudgetExhaustedError:
                return
            await anyio.lowlevel.checkpoint()
            reservation.settle(used(prompt, dice.randint(1, reservation.max_completion_tokens)), 0.0)
            assert account.usage.total_tokens <= 3_000

    async with anyio.create_task_group() as group:
        for number in range(40):
            group.start_soon(agent, f"step {number}")

    assert 19_000 <= plan.usage.total_tokens <= 20_000


@dataclass(kw_only=True)
class Ledger:
    """A tree of accounts with calls in progress, and the largest grant to one of them."""

    limit: int
    largest: int = 0

    def __post_init__(self) -> None:
        self.plan = Account("plan", Limits(max_tokens=self.limit))

    async def agent(self, account: Account, calls: Sequence[tuple[int, int, float, int]]) -> None:
        """Make calls, given as (prompt, wanted, factor of the grant that it uses, checkpoints until the answer)."""
        for prompt, wanted, times, steps in calls:
            try:
                reservation = await account.reserve(MODEL, prompt, wanted)
            except BudgetExhaustedError:
                return
            given = prompt + reservation.max_completion_tokens
            self.largest = max(self.largest, given)
            for _ in range(steps):
                await anyio.lowlevel.checkpoint()
            taken = int(times * given)
            reservation.settle(used(taken // 2, taken - taken // 2), 0.0)


CALLS = st.lists(
    st.tuples(st.integers(1, 900), st.integers(1, 9_000), st.floats(0.01, 2.0), st.integers(0, 5)), max_size=6
)


@given(limit=st.integers(100, 60_000), agents=st.lists(st.tuples(CALLS, CALLS), min_size=1, max_size=20))
@settings(max_examples=150, deadline=None)
def test_a_tree_passes_its_limit_by_no_more_than_one_call(
    limit: int, agents: list[tuple[list[tuple[int, int, float, int]], list[tuple[int, int, float, int]]]]
) -> None:
    ledger = Ledger(limit=limit)

    async def run() -> None:
        async with anyio.create_task_group() as group:
            for own, childs in agents:
                account = ledger.plan.open("step", Limits())
                group.start_soon(ledger.agent, account, own)
                group.start_soon(ledger.agent, account.open("child", Limits()), childs)

    anyio.run(run)

    assert ledger.plan.usage.total_tokens <= limit + ledger.largest
