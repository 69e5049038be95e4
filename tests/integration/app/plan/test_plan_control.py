"""Commands for a plan at moments that are hard to hit: while its run begins, hangs or ends."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from ipc.bus import EventBus
from ipc.commands import (
    Act,
    AnswerQuestion,
    Approve,
    Cancel,
    Decide,
    GivePrompt,
    Interrupt,
    Pause,
    Reply,
    Requests,
    Revise,
    RunCommand,
    Steer,
    StepAction,
    tag_of,
)
from ipc.control import control_server, refusal
from ipc.registry import RunInfo
from planner.plan.status import PlanStatus
from planner.run.control import PlanControl, Request
from planner.state.commands import Asked
from planner.store.errors import PlanLockedError
from planner.store.folder import PlanRunOptions, RunSettings, find_plan
from planner.store.store import PlanStore
from vibe.app.engine.host import Host
from vibe.app.plan import commands as plan_router, control_handler
from vibe.app.plan.commands import give
from vibe.app.plan.control_handler import plan_router as serving
from vibe.app.plan.prepare import PlanOverError, prepare_resumed
from vibe.system.errors import EnvironmentFailure, UsageError

OPTIONS = [{"id": "yes", "label": "Yes"}, {"id": "no", "label": "No"}]
PLAN = {
    "version": 1,
    "goal": "g",
    "steps": [{"id": "a", "title": "A", "mode": "run", "command": "true", "decision": "ship"}],
    "decisions": [{"id": "ship", "question": "?", "options": OPTIONS}],
}
DECIDE = Decide(decision_id="ship", selections=("yes",))


@pytest.fixture
def host(vibe_home: Path) -> Host:
    return Host(home=vibe_home, environ={})


@pytest.fixture
def store(vibe_home: Path) -> Iterator[PlanStore]:
    """Create a plan that this process holds."""
    settings = RunSettings(goal="g", workspace=str(vibe_home))
    with PlanStore.create(vibe_home, settings, json.dumps(PLAN).encode()) as store:
        yield store


@pytest.fixture
def bus(vibe_home: Path, store: PlanStore) -> Iterator[EventBus]:
    """Start a run of that plan, as the registry knows it."""
    info = RunInfo(cwd="/", plan_id=store.plan_id)
    with EventBus(vibe_home, source="run-1", info=info) as bus:
        yield bus


def taken(host: Host, plan_id: str) -> dict[str, tuple[str, ...]]:
    return find_plan(host.home, plan_id).state().answers()


async def test_a_run_that_is_just_ending_is_waited_for_and_its_folder_changed(
    host: Host, store: PlanStore, bus: EventBus
) -> None:
    asked: list[RunCommand] = []
    done: list[plan_router.CommandReport] = []
    ends = anyio.Event()

    async def ending(command: RunCommand) -> Reply:
        asked.append(command)
        ends.set()
        return refusal("ended", "the run is over")

    async def run() -> None:
        async with control_server(bus.entry, ending):
            listening.set()
            await ends.wait()
            await to_thread.run_sync(store.close)
        await to_thread.run_sync(bus.close)

    listening = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await listening.wait()
        done.append(await give(host, store.plan_id, Decide(decision_id="ship", selections=("yes",))))

    assert ([each.running for each in done], len(asked)) == ([False], 1)
    assert await to_thread.run_sync(taken, host, store.plan_id) == {"ship": ("yes",)}


async def test_a_run_that_says_no_is_quoted_and_nothing_is_changed(host: Host, store: PlanStore, bus: EventBus) -> None:
    async def says_no(_: RunCommand) -> Reply:
        return refusal("refused", "not on a Friday")

    async with control_server(bus.entry, says_no):
        with pytest.raises(UsageError, match="not on a Friday"):
            await give(host, store.plan_id, Decide(decision_id="ship", selections=("yes",)))

    assert await to_thread.run_sync(taken, host, store.plan_id) == {}


async def test_a_run_that_hangs_is_said_after_a_while(
    host: Host, store: PlanStore, bus: EventBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_router, "ANSWER_SECONDS", 0.2)
    goes_on = anyio.Event()

    async def hanging(_: RunCommand) -> Reply:
        await goes_on.wait()
        return Reply(ok=True, message="")

    async with control_server(bus.entry, hanging):
        with pytest.raises(EnvironmentFailure, match=f"process {bus.entry.pid}"):
            await give(host, store.plan_id, Pause())
        goes_on.set()


def test_a_process_that_holds_the_plan_and_is_no_run_is_named_after_a_while(
    host: Host, store: PlanStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_router, "SETTLING_SECONDS", 0.2)

    with pytest.raises(PlanLockedError):
        anyio.run(give, host, store.plan_id, Cancel())


def test_a_lock_that_is_given_back_meanwhile_is_no_hindrance(host: Host, store: PlanStore) -> None:
    threading.Timer(0.2, store.close).start()

    assert anyio.run(give, host, store.plan_id, Cancel()).message == "cancelled; it was not running"
    assert find_plan(host.home, store.plan_id).state().status is PlanStatus.CANCELLED


async def test_a_run_that_has_not_begun_says_that_it_said_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_handler, "VERDICT_SECONDS", 0.05)

    reply = await serving(PlanControl())(DECIDE)

    assert (reply.ok, reply.reason) == (False, "late")


async def test_a_run_that_is_over_says_so() -> None:
    control = PlanControl()
    control.attach(lambda _: None)
    control.detach()
    commands = serving(control)
    remove = Revise(operations=({"op": "remove_step", "id": "a"},))

    for command in (DECIDE, remove):
        reply = await commands(command)
        assert (reply.ok, reply.reason) == (False, "ended")


@pytest.mark.parametrize("problem", [None, "step 'a' was skipped already"])
async def test_an_act_on_a_step_is_handed_to_the_run_and_its_verdict_given(problem: str | None) -> None:
    control = PlanControl()
    acts: list[Asked] = []

    def take(request: Request) -> None:
        acts.append(request.command)
        request.answer(problem)

    command = Act(step_id="a", action=StepAction.SKIP, by="page")
    control.attach(take)
    reply = await serving(control)(command)

    assert acts == [command]
    assert (reply.ok, reply.message) == (problem is None, problem or "step 'a' is skipped")


async def test_operations_that_are_none_never_reach_the_run() -> None:
    control = PlanControl()
    control.attach(lambda request: pytest.fail(f"{request} was handed over"))

    reply = await serving(control)(Revise(operations=({"op": "fly"},)))

    assert (reply.ok, reply.reason) == (False, "refused")
    assert "fly" in reply.message


async def test_pause_and_cancel_are_answered_at_once() -> None:
    control = PlanControl()
    commands = serving(control)

    assert (await commands(Pause(grace_seconds=0))).ok
    assert (await commands(Cancel())).ok
    assert control.requested


async def test_what_is_said_to_no_step_is_refused() -> None:
    commands = serving(PlanControl())

    of_no_step, of_nobody = await commands(Steer(text="stop")), await commands(Steer(text="stop", agent_id="b"))

    assert (of_no_step.ok, of_no_step.reason) == (of_nobody.ok, of_nobody.reason) == (False, "refused")
    assert "with step_id" in of_no_step.message
    assert "the agent 'b' is not working on a step" in of_nobody.message


@pytest.mark.parametrize("command", [Interrupt(), GivePrompt(text="go")])
async def test_what_a_plans_run_does_not_do_is_refused_with_what_it_does(command: RunCommand) -> None:
    reply = await serving(PlanControl())(command)

    assert (reply.ok, reply.reason) == (False, "refused")
    refusal = f"this run executes a plan; it takes no {tag_of(command)}, only pause, cancel, decide, revise, step_act"
    assert reply.message.startswith(refusal)


@pytest.mark.parametrize(
    "command",
    [Requests(), Approve(request_id="abcd", allow=True), AnswerQuestion(request_id="abcd", answers=(("x",),))],
)
async def test_a_run_that_asks_nobody_says_so(command: RunCommand) -> None:
    reply = await serving(PlanControl())(command)

    assert (reply.ok, reply.reason) == (False, "refused")
    assert (
        reply.message == "no one answers in this run: what needs approval is denied; with --wait it waits for an answer"
    )


def test_a_plan_given_up_while_it_is_taken_up_stays_given_up(host: Host, store: PlanStore) -> None:
    run = prepare_resumed(store.plan_id, PlanRunOptions(workdir=host.home, plan_folder=host.home), host)
    store.take(Cancel())
    store.close()

    with pytest.raises(PlanOverError, match="cancelled"):
        run.open_store()

    assert find_plan(host.home, store.plan_id).state().status is PlanStatus.CANCELLED
    PlanStore.open(host.home, store.plan_id).close()


def test_a_plan_changed_while_it_is_taken_up_is_not_run_as_it_was(host: Host, store: PlanStore) -> None:
    run = prepare_resumed(store.plan_id, PlanRunOptions(workdir=host.home, plan_folder=host.home), host)
    store.take(Revise(operations=({"op": "update_step", "id": "a", "changes": {"title": "B"}},)))
    store.close()

    with pytest.raises(UsageError, match="just changed by another command: resume it again"):
        run.open_store()
