from __future__ import annotations

from collections.abc import Sequence

import anyio
import anyio.lowlevel

from ipc.commands import Decide, Pause
from ipc.events import PlanDecisionEvent, PlanStepUpdateEvent
from planner.run.control import PlanControl, Request
from vibe.app.plan.decision_prompter import DecisionPrompter


class Person:
    """Answers by decision id. A decision without an answer waits."""

    def __init__(self, **answers: Sequence[str] | None) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.withdrawn: list[str] = []

    async def __call__(self, decision: PlanDecisionEvent) -> Sequence[str] | None:
        self.asked.append(decision.decision_id)
        if decision.decision_id in self.answers:
            await anyio.lowlevel.checkpoint()
            return self.answers[decision.decision_id]
        try:
            await anyio.sleep_forever()
        finally:
            self.withdrawn.append(decision.decision_id)


def opened(decision_id: str, *, timeout: float = 0.0) -> PlanDecisionEvent:
    return PlanDecisionEvent(decision_id=decision_id, question="?", options=("a", "b"), timeout_seconds=timeout)


def taken(decision_id: str) -> PlanDecisionEvent:
    return PlanDecisionEvent(decision_id=decision_id, question="?", options=("a", "b"), selections=("a",))


def moved(step_id: str, previous: str, status: str) -> PlanStepUpdateEvent:
    return PlanStepUpdateEvent(step_id=step_id, title="t", status=status, previous=previous)


async def wishes_after(person: Person, *events: PlanDecisionEvent | PlanStepUpdateEvent) -> list[str]:
    """Return what the desk asked for, with a pause between any two events."""
    wishes: list[str] = []

    def take(request: Request) -> None:
        match request.command:
            case Decide(decision_id=decision_id, selections=selections):
                wishes.append(f"{decision_id}={','.join(selections)}")
            case Pause(by=reason):
                wishes.append(f"pause: {reason}")
            case _:
                raise AssertionError(request)

    control = PlanControl()
    control.attach(take)
    desk = DecisionPrompter(person)
    async with desk.at_work(control):
        for event in events:
            desk.publish(event)
            await anyio.wait_all_tasks_blocked()
    return wishes


async def test_decisions_are_put_one_after_the_other_and_taken() -> None:
    person = Person(one=["a"], two=["a", "b"])
    assert await wishes_after(person, opened("one"), opened("two")) == ["one=a", "two=a,b"]


async def test_one_that_is_taken_in_another_way_is_withdrawn_and_the_next_one_put() -> None:
    person = Person(next=["b"])
    assert await wishes_after(person, opened("slow"), opened("next"), taken("slow")) == ["next=b"]
    assert person.withdrawn == ["slow"]


async def test_one_taken_before_its_turn_is_never_asked() -> None:
    person = Person()
    await wishes_after(person, opened("slow"), opened("next"), taken("next"), taken("slow"))
    assert person.asked == ["slow"]


async def test_not_now_pauses_the_plan_only_once_nothing_else_goes_on() -> None:
    person = Person(one=None)
    busy = (moved("s", "pending", "in_progress"), opened("one"))
    assert await wishes_after(person, *busy) == []
    assert await wishes_after(person, *busy, moved("s", "in_progress", "completed")) == ["pause: decision"]
    assert await wishes_after(person, *busy, moved("s", "in_progress", "pending")) == [], "it is tried again"


async def test_not_now_leaves_a_decision_with_a_timeout_to_its_clock() -> None:
    assert await wishes_after(Person(one=None), opened("one", timeout=60.0)) == []
