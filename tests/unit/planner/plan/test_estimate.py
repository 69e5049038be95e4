"""Estimates of a plan before it runs are bounds that no run can break."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

from planner.plan.dag import Dag
from planner.plan.estimate import MAX_OVERLAPS, Estimate, estimate, notes
from planner.plan.model import Plan
from tests.unit.planner.scripted_run import make_plan, step


def of(*steps: dict[str, Any], **fields: Any) -> Estimate:
    plan = Plan.model_validate({"version": 1, "goal": "g", "steps": list(steps), **fields}).resolved()
    return estimate(plan, Dag.build(plan.steps))


def test_a_fan_is_as_much_faster_as_it_is_wide_and_no_more_than_may_run_at_once() -> None:
    fan = [step("start"), *(step(f"s{n}", "start") for n in range(8))]
    assert of(*fan).speed_up == 4.5  # 9 steps over a path of 2
    assert of(*fan, max_parallel_steps=3).speed_up == 3.0
    assert of(*fan).width == 8
    assert of(*fan, max_parallel_steps=3).width == 3
    assert not of(*fan).is_chain


def test_a_chain_is_flagged_with_what_is_known_of_chains() -> None:
    chain = of(step("a"), step("b", "a"), step("c", "b"))
    assert (chain.is_chain, chain.speed_up, chain.critical_path) == (True, 1.0, ("a", "b", "c"))
    said = " ".join(notes(chain))
    assert "the plan is a chain: 3 of 3 steps" in said
    assert "81 % better" in said
    assert "39 to 70 % worse" in said
    assert not of(step("a")).is_chain


def test_a_list_is_as_wide_as_its_items_that_run_side_by_side() -> None:
    def listed(**each: Any) -> Estimate:
        return of(
            step("find", max_turns=2),
            step("fix", "find", for_each=each, max_turns=5),
            step("sum", "fix", max_turns=1),
        )

    found = listed(items=list(range(10)), width=4)
    assert (found.width, found.is_chain, found.speed_up) == (4, False, 2.4)  # 12 steps, 5 of them in turn
    assert (found.max_turns, found.critical_turns) == (2 + 10 * 5 + 1, 2 + 3 * 5 + 1)
    assert listed(items=[1, 2, 3], width=1).is_chain
    assert listed(items=[]).critical_turns == 3
    fan = step("fix", for_each=list(range(10)), max_turns=5)
    assert of(fan, max_parallel_steps=2).critical_turns == 25


def test_the_worst_case_counts_every_retry_and_stops_at_the_plans_budget() -> None:
    steps = [
        step("a", max_tokens=1_000, max_turns=5, retries=2),
        step("b", max_tokens=500, max_turns=2),
        step("c", "a", mode="run", command="make"),
        step("d", "c", max_tokens=100, max_turns=1),
    ]
    found = of(*steps)
    assert (found.max_tokens, found.max_turns, found.critical_turns, found.model_steps) == (3_600, 18, 16, 3)
    assert of(*steps, budget={"max_tokens": 2_000}).max_tokens == 2_000


def test_the_price_is_bounded_only_if_every_model_step_or_the_plan_is() -> None:
    assert of(step("a", max_price=0.5, retries=1), step("b")).max_price is None
    assert of(step("a", max_price=0.5, retries=1), step("b", max_price=1.0)).max_price == 2.0
    assert of(step("a", max_price=0.5), step("b"), budget={"max_price": 3.0}).max_price == 3.0


def test_the_worst_price_is_that_of_all_tokens_at_the_dearest_rate_within_the_limits() -> None:
    rates = {"a": 0.001, "b": 0.002}

    def worst(*steps: dict[str, Any], **fields: Any) -> float | None:
        plan = Plan.model_validate({"version": 1, "goal": "g", "steps": list(steps), **fields}).resolved()
        return estimate(plan, Dag.build(plan.steps), rate_of=lambda step: rates.get(step.id)).worst_price

    a, b = step("a", max_tokens=1_000, retries=1), step("b", max_tokens=500)
    assert worst(a, b) == 3.0
    assert worst({**a, "max_price": 0.5}, b) == 2.0
    assert worst(a, b, budget={"max_tokens": 1_000}) == 2.0
    assert worst(a, b, budget={"max_price": 0.75}) == 0.75
    assert worst(a, step("unpriced")) is None
    assert worst(a, step("unpriced"), budget={"max_price": 4.0}) == 4.0
    assert worst(step("c", mode="run", command="make")) == 0.0


def test_steps_in_no_order_that_write_the_same_files_are_named() -> None:
    found = of(
        step("a", mode="code", writes=["src/**"]),
        step("b", mode="code", writes=["src/x.py"]),
        step("c", "a", mode="code", writes=["src/y.py"]),  # after a, beside b on another file
        step("d", mode="code", writes=["docs"]),
    )
    assert [(o.first, o.second, o.shared) for o in found.overlaps] == [("a", "b", True)]
    assert "a and b edit the same files, so they take turns: split them" in notes(found)[-1]


def test_overlapping_steps_in_worktrees_may_conflict_when_merged() -> None:
    both = [step(name, mode="code", writes=["src"], workspace="worktree") for name in "ab"]
    plan = make_plan(both)
    found = estimate(plan, Dag.build(plan.steps))
    assert [(o.first, o.second, o.shared) for o in found.overlaps] == [("a", "b", False)]
    assert "merging their work may conflict" in notes(found)[-1]


def test_an_order_through_other_steps_is_an_order() -> None:
    found = of(
        step("a", mode="code", writes=["x"]), step("middle", "a"), step("b", "middle", mode="code", writes=["x"])
    )
    assert found.overlaps == ()


def test_steps_that_do_not_say_what_they_write_are_counted() -> None:
    found = of(step("a", mode="code"), step("b", mode="code"), step("c"), step("d", mode="run", command="make"))
    assert found.writes_unknown == ("a", "b")
    assert any("2 steps do not declare what they write (a, b)" in note for note in notes(found))


def test_many_overlaps_are_cut_and_that_is_said() -> None:
    found = of(*(step(f"s{n}", mode="code", writes=["x"]) for n in range(30)))
    assert len(found.overlaps) == MAX_OVERLAPS
    assert found.overlaps_cut
    assert notes(found)[-1] == "more steps may write the same files"


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    steps: list[dict[str, Any]] = []
    for number in range(draw(st.integers(1, 8))):
        needs = draw(st.sets(st.integers(0, number - 1), max_size=3)) if number else set[int]()
        writes = draw(st.sampled_from([["a"], ["b"], ["**"]]))
        steps.append(step(f"s{number}", *(f"s{n}" for n in sorted(needs)), mode="code", writes=writes))
    return make_plan(steps)


def _ancestors(dag: Dag, step_id: str) -> set[str]:
    return {step_id}.union(*(_ancestors(dag, needed) for needed in dag.dependencies[step_id]))


@given(plan=plans())
def test_the_overlaps_are_exactly_the_unordered_pairs_that_can_meet(plan: Plan) -> None:
    dag = Dag.build(plan.steps)
    writes = {s.id: (s.writes or [""])[0] for s in plan.steps}
    ids = list(writes)
    expected = {
        (a, b)
        for number, a in enumerate(ids)
        for b in ids[number + 1 :]
        if a not in _ancestors(dag, b)
        and b not in _ancestors(dag, a)
        and (writes[a] == writes[b] or "**" in (writes[a], writes[b]))
    }
    found = estimate(plan, dag)
    pairs = {(o.first, o.second) for o in found.overlaps}
    assert pairs == expected if not found.overlaps_cut else pairs <= expected
    assert 1.0 <= found.speed_up <= found.steps


def test_commands_one_after_another_are_no_matter_of_agents() -> None:
    chain = of(*(step(name, *needs, mode="run", command="true") for name, needs in (("a", ""), ("b", "a"), ("c", "b"))))
    assert chain.is_chain
    assert notes(chain) == (
        "3 steps in 3 levels, at most 1 side by side: no parallel speed-up: the steps run one after another",
    )


def test_steps_of_which_a_run_does_one_are_not_said_to_edit_the_same_files() -> None:
    options = [{"id": "x", "label": "X"}, {"id": "y", "label": "Y"}]
    found = of(
        step("a", mode="code", writes=["src"], decision="d", when={"d": ["x"]}),
        step("b", mode="code", writes=["src"], decision="d", when={"d": ["y"]}),
        step("c", mode="test"),
        step("good", mode="code", writes=["docs"], depends_on=[{"step": "c", "on": "completed"}]),
        step("bad", mode="code", writes=["docs"], depends_on=[{"step": "c", "on": "failed"}]),
        decisions=[{"id": "d", "question": "Which?", "options": options}],
    )

    assert found.overlaps == ()
