"""The ready queue compared with the obvious way to do the same: look at every waiting step, every time."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from planner.plan.write_claims import ANYTHING, NOTHING, Claim, claims_overlap, parse_glob
from planner.state.schedule import ReadyQueue

GLOBS = ("**", "src/**", "src/a", "src/b", "docs/*.md", "docs/x.md", "src/*.py")


def claim(*globs: str) -> Claim:
    return tuple(sorted(parse_glob(text) for text in globs))


def pop(queue: ReadyQueue) -> str | None:
    step_id = queue.best()
    if step_id is not None:
        queue.take(step_id)
    return step_id


CLAIMS = st.one_of(
    st.just(NOTHING),
    st.just(ANYTHING),
    st.lists(st.sampled_from(GLOBS), min_size=1, max_size=3, unique=True).map(lambda globs: claim(*globs)),
)


@settings(max_examples=250, deadline=None)
@given(claims=st.lists(CLAIMS, min_size=1, max_size=12), data=st.data())
def test_pop_takes_the_best_step_that_meets_no_running_one_and_only_others_are_parked(
    claims: list[Claim], data: st.DataObject
) -> None:
    ids = [f"s{number}" for number in range(len(claims))]
    claim_by_id = dict(zip(ids, claims, strict=True))
    queue = ReadyQueue(ids, claim_by_id)
    outside, waiting, running = set(ids), set[str](), set[str]()
    for move in data.draw(st.lists(st.sampled_from(["push", "push", "pop", "release"]), min_size=5, max_size=60)):
        if move == "push" and outside:
            step_id = data.draw(st.sampled_from(sorted(outside)))
            outside.remove(step_id)
            waiting.add(step_id)
            queue.push(step_id)
        elif move == "release" and running:
            step_id = data.draw(st.sampled_from(sorted(running)))
            running.remove(step_id)
            outside.add(step_id)
            queue.release(step_id)
        elif move == "pop":
            free = [
                step_id
                for step_id in ids
                if step_id in waiting
                and not any(claims_overlap(claim_by_id[step_id], claim_by_id[other]) for other in running)
            ]
            popped = pop(queue)
            assert popped == (free[0] if free else None)
            if popped is not None:
                waiting.remove(popped)
                running.add(popped)
        for parked in queue.parked():
            held = [claim_by_id[other] for other in running if other != parked]
            assert move == "release" or any(claims_overlap(claim_by_id[parked], other) for other in held)


def test_steps_after_one_directory_run_in_order_one_by_one() -> None:
    ids = [f"s{number}" for number in range(500)]
    queue = ReadyQueue(ids, {step_id: claim("src/**", f"tests/{step_id}") for step_id in ids})
    for step_id in reversed(ids):
        queue.push(step_id)
    for step_id in ids:
        assert pop(queue) == step_id
        assert pop(queue) is None
        queue.release(step_id)
    assert pop(queue) is None


def test_steps_without_files_never_wait_for_those_of_others() -> None:
    ids = [f"s{number}" for number in range(100)]
    queue = ReadyQueue(ids, dict.fromkeys(ids, NOTHING), dict.fromkeys(ids[50:], "each"), {"each": 2})
    for step_id in ids:
        queue.push(step_id)

    while pop(queue) is not None:
        assert queue.parked() == []
