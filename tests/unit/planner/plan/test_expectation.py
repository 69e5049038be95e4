"""The expected cost of a plan, from the cost of similar steps."""

from __future__ import annotations

from collections.abc import Sequence
from time import process_time
from typing import Any

import pytest

from ipc.events import PlanExpectation, StepOutline, WorkOrder
from planner.plan.expectation import Measurement, expect, times_to_come

CODE = ("code", "large")


def past(seconds: float, kind: tuple[str, str] = CODE, tokens: int = 100, *, here: bool = False) -> Measurement:
    return Measurement(kind=kind, seconds=seconds, tokens=tokens, cost_usd=0.01 * tokens, here=here)


def step(name: str, *after: str, **order: Any) -> StepOutline:
    order.setdefault("writes", (f"{name}.py",))
    return StepOutline(id=name, title=name, mode="code", depends_on=after, order=WorkOrder(**order))


def expected(known: Sequence[Measurement], *kinds: tuple[str, str], at_once: int = 4) -> PlanExpectation | None:
    """Return the expectation for steps of these kinds, named ``a``, ``b`` and so on."""
    named = dict(zip("abcd", kinds, strict=False))
    return expect([step(name) for name in named], named, known, at_once)


def test_the_median_of_like_steps_counts_and_those_of_the_same_folder_first() -> None:
    everywhere = expected([past(10.0), past(12.0), past(90.0)], CODE)
    assert everywhere is not None
    assert (everywhere.seconds, everywhere.tokens, everywhere.cost_usd) == (12.0, 100, 1.0)

    here = expected([past(10.0), past(12.0), past(90.0, here=True)], CODE)
    assert here is not None
    assert here.seconds == 90.0


def test_another_mode_of_the_same_model_will_do_and_another_model_will_not() -> None:
    docs = expected([past(10.0)], ("docs", "large"))
    assert docs is not None
    assert docs.seconds == 10.0
    assert expected([past(10.0)], ("code", "small")) is None


def test_a_command_is_like_itself_else_like_any_and_unknown_if_there_was_none() -> None:
    ran = [past(2.0, ("$", "make"), 0), past(30.0, ("$", "make test"), 0)]
    both = (("$", "make test"), ("$", "make lint"))
    found = expected(ran, *both, at_once=1)
    assert found is not None
    assert [found.steps[name].seconds for name in "ab"] == [30.0, 16.0]
    assert found.seconds == 46.0, "one after the other"
    assert expected([past(10.0)], *both) is None


def test_a_price_is_told_only_if_that_of_every_step_is_known() -> None:
    unpriced = Measurement(kind=("docs", "small"), seconds=1.0, cost_usd=None)
    found = expected([past(10.0), unpriced], CODE, ("docs", "small"))
    assert found is not None
    assert found.cost_usd is None


@pytest.mark.parametrize(("at_once", "seconds"), [(1, 40.0), (2, 30.0), (3, 20.0)])
def test_steps_side_by_side_take_as_long_as_the_longest_way(at_once: int, seconds: float) -> None:
    steps = [step("a"), step("b"), step("c"), step("d", "a", "b", "c")]
    found = expect(steps, dict.fromkeys("abcd", CODE), [past(10.0)], at_once)
    assert found is not None
    assert found.seconds == seconds


@pytest.mark.parametrize(
    ("order", "seconds"),
    [({"writes": None}, 30.0), ({"writes": ("one.py",)}, 30.0), ({"writes": None, "command": "make"}, 10.0)],
)
def test_steps_that_may_write_the_same_take_turns(order: dict[str, Any], seconds: float) -> None:
    found = expect([step(name, **order) for name in "abc"], dict.fromkeys("abc", CODE), [past(10.0)], 3)
    assert found is not None
    assert found.seconds == seconds


def test_thousands_of_steps_are_told_of_at_once() -> None:
    steps = [step(f"s{number}") for number in range(5_000)]
    began = process_time()
    found = expect(steps, dict.fromkeys((one.id for one in steps), CODE), [past(10.0)] * 3_000, 50)
    assert process_time() - began < 2.0
    assert found is not None
    assert found.seconds == 1_000.0


def test_what_waits_begins_when_that_has_ended_which_it_comes_after() -> None:
    steps = [step("a"), step("b"), step("c", "done", "a"), step("d", "c", "b")]
    found = expect(steps, dict.fromkeys("abcd", CODE), [past(10.0)], 2)
    assert found is not None
    times = times_to_come(steps, found, {"a": 25.0, "b": 22.0}, 20.0)
    assert times == {"a": (20.0, 25.0), "b": (20.0, 22.0), "c": (25.0, 35.0), "d": (35.0, 45.0)}
