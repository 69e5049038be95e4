from __future__ import annotations

from collections.abc import Callable

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from msgspec import structs
from msgspec.structs import force_setattr

from ipc.events import ApprovalRequestEvent, Event, WarningEvent
from ipc.sink import MemorySink
from subagents.agent.budget import Account, Limits
from subagents.agent.spawner import SpawnError
from subagents.executor import StepResult
from subagents.process.parent import StepServer
from subagents.process.protocol import (
    AGENTS,
    Begin,
    Ended,
    Granted,
    Hello,
    LinkError,
    MismatchError,
    ProviderSlot,
    Returned,
    ToStep,
    TurnToAsk,
    encode,
    from_step,
)
from tests.fakes.memory_link import End, memory_link, socket_link
from tests.fakes.step_links import NO_AGENTS, LinkedStep, Person, linked_step, shared_of_a_run, until
from tests.fakes.tasks import task_of
from vibe.app.plan.child_main import (
    LeaseRefusedError,
    LinkedApprover,
    LinkedClaims,
    LinkedLimiter,
    LinkedSpawnPool,
    LinkedTurn,
    StepLink,
    linked_account,
    linked_input,
)
from vibe.core.budget import BudgetExhaustedError
from vibe.core.config.models import ModelConfig, SubagentsConfig
from vibe.core.messages import Outcome, Spending, Usage
from vibe.core.tools.gate import Approvals
from vibe.core.tools.questions import Choice, Question

MODEL = ModelConfig(name="m", provider="p", input_price=1.0, output_price=10.0)


def ledger_of(step: LinkedStep, limits: Limits | None = None) -> Account:
    return linked_account(step.link, limits or Limits(), Usage(), 0.0)


def request(number: int = 0) -> ApprovalRequestEvent:
    return ApprovalRequestEvent(
        request_id=f"r{number}", tool_call_id="c", tool="bash", arguments={}, summary="", rule="", reason="",
        covers=(f"bash: {number}",),
    )  # fmt: skip


@pytest.mark.parametrize("ends_of", [memory_link, socket_link])
async def test_events_come_in_order_and_once_even_if_the_process_dies_right_after(
    ends_of: Callable[[], tuple[End, End]],
) -> None:
    shared = shared_of_a_run()
    events: list[Event] = [
        WarningEvent(code=str(number), message="x" * number, subagent_id="a") for number in range(300)
    ]

    async with linked_step(shared, ends=ends_of()) as step:
        for event in events:
            step.link.publish(event)
            await anyio.lowlevel.checkpoint()

    assert isinstance(shared.sink, MemorySink)
    assert shared.sink.events == events


async def test_room_is_found_in_the_plans_account_and_settled_there() -> None:
    shared = shared_of_a_run(limits=Limits(max_tokens=1_000))
    async with linked_step(shared) as step:
        account = ledger_of(step, Limits(max_tokens=1_000)).open("step", Limits())
        reservation = await account.reserve(MODEL, 100, 8_000)
        assert reservation.max_completion_tokens == 900
        reservation.settle(Usage(90, 50, 0, 1), 0.25)

        await until(lambda: shared.account.usage.calls)

    assert (shared.account.usage, shared.account.cost_usd) == (Usage(90, 50, 0, 1), 0.25)
    assert account.usage == Usage(90, 50, 0, 1)


async def test_what_others_spent_meanwhile_is_known_after_the_next_call() -> None:
    shared = shared_of_a_run(limits=Limits(max_tokens=1_000))
    async with linked_step(shared) as step:
        account = ledger_of(step, Limits(max_tokens=1_000)).open("step", Limits())
        shared.account.book(Usage(800, 0, 0, 1), 0.0)

        (await account.reserve(MODEL, 10, 100)).release()

    assert account.used_share() == pytest.approx(0.8)


async def test_room_is_taken_in_account_over_all_steps() -> None:
    shared = shared_of_a_run(limits=Limits(max_tokens=1_000))
    async with linked_step(shared) as first, linked_step(shared) as second:
        held = await ledger_of(first).reserve(MODEL, 100, 700)
        with anyio.move_on_after(0.05) as waiting:
            await ledger_of(second).reserve(MODEL, 100, 700)
        assert waiting.cancelled_caught, "the other may give something back"
        held.release()
        with anyio.fail_after(60):
            more = await ledger_of(second).reserve(MODEL, 100, 700)
        assert more.max_completion_tokens == 700


async def test_a_spent_budget_is_told_like_one_of_this_process() -> None:
    shared = shared_of_a_run(limits=Limits(max_tokens=1_000))
    shared.account.book(Usage(990, 0, 0, 1), 0.0)
    async with linked_step(shared) as step:
        account = ledger_of(step).open("step", Limits())

        with pytest.raises(BudgetExhaustedError, match=r"the plan is used up: max_tokens 1000.*990 tokens spent"):
            await account.reserve(MODEL, 5, 100)

        assert account.used_share() == 0.0
        shared.account.book(Usage(-500, 0, 0, 0), 0.0)
        assert (await account.reserve(MODEL, 5, 100)).max_completion_tokens == 100, "nothing was left held here"


async def test_a_call_whose_process_dies_is_booked_with_all_the_room_it_had() -> None:
    shared = shared_of_a_run(limits=Limits(max_tokens=10_000))
    async with linked_step(shared) as step:
        await ledger_of(step).reserve(MODEL, 100, 300)
        released = await ledger_of(step).reserve(MODEL, 100, 300)
        released.release()

    assert shared.account.usage == Usage(100, 300, 0, 1)
    assert shared.account.cost_usd == pytest.approx((100 * 1 + 300 * 10) / 1e6)
    assert step.server.lost == [Spending(shared.account.usage, shared.account.cost_usd)]


async def test_what_a_finished_process_forgot_to_give_back_is_given_back() -> None:
    shared = shared_of_a_run(limits=Limits(max_tokens=1_000))
    async with linked_step(shared) as step:
        await ledger_of(step).reserve(MODEL, 100, 300)
        step.link.send(Ended(StepResult(outcome=Outcome.COMPLETED)))

    assert step.server.result == StepResult(outcome=Outcome.COMPLETED)
    assert shared.account.usage == Usage()
    assert (await shared.account.reserve(MODEL, 100, 900)).max_completion_tokens == 900


async def test_one_question_at_a_time_over_all_steps_and_a_lasting_yes_holds_for_all() -> None:
    person = Person()
    person.may_answer.set()
    shared = shared_of_a_run(person=person)

    async def ask(step: LinkedStep) -> None:
        approvals = Approvals(approver=LinkedApprover(step.link))
        approvals.queue = LinkedTurn(step.link, approvals)
        async with approvals.queue:
            if approvals.remembers(request().covers):
                return
            assert (await LinkedApprover(step.link).approve(request())).reason == "fine"
            approvals.remember(request().covers)

    async with linked_step(shared) as first, linked_step(shared) as second, anyio.create_task_group() as group:
        group.start_soon(ask, first)
        group.start_soon(ask, second)

    assert len(person.asked) == 1
    assert shared.approvals.remembered == {"bash: 0"}


async def test_a_death_withdraws_the_question_and_passes_the_turn_on() -> None:
    person = Person()
    shared = shared_of_a_run(person=person)
    async with linked_step(shared) as second:
        async with linked_step(shared) as first, anyio.create_task_group() as group:
            await first.link.lease(TurnToAsk())
            group.start_soon(LinkedApprover(first.link).approve, request())
            await until(lambda: person.asked)
            group.cancel_scope.cancel()

        with anyio.fail_after(60):
            await second.link.lease(TurnToAsk())

    assert person.withdrawn == ["r0"]


async def test_an_agents_questions_are_answered() -> None:
    person = Person()
    shared = shared_of_a_run()
    force_setattr(shared, "user_input", person.reply)
    question = Question(question="Which?", options=[Choice(label="this"), Choice(label="that")])
    async with linked_step(shared) as step:
        answers = await linked_input(step.link, [question])

    assert answers is not None
    assert [answer.answer for answer in answers] == ["this"]


async def test_without_a_person_the_answer_is_no() -> None:
    async with linked_step(shared_of_a_run()) as step:
        answer = await LinkedApprover(step.link).approve(request())
        question = Question(question="Which?", options=[Choice(label="this"), Choice(label="that")])

        assert (answer.allow, answer.reason) == (False, "no one can answer questions in this run")
        assert await linked_input(step.link, [question]) is None


async def test_a_providers_slots_are_counted_over_all_steps() -> None:
    shared = shared_of_a_run(slots=1)
    async with linked_step(shared) as first, linked_step(shared) as second:
        async with LinkedLimiter(first.link, "p").slot():
            with anyio.move_on_after(0.05) as waiting:
                await second.link.lease(ProviderSlot(provider="p"))
            assert waiting.cancelled_caught
        with anyio.fail_after(60):
            async with LinkedLimiter(second.link, "p").slot():
                pass


async def test_a_providers_pause_holds_for_all_steps() -> None:
    shared = shared_of_a_run()
    async with linked_step(shared) as first, linked_step(shared) as second:
        LinkedLimiter(first.link, "p").pause(0.2)
        await first.link.lease(ProviderSlot(provider="other"))  # by now the pause is known
        started = anyio.current_time()
        await second.link.lease(ProviderSlot(provider="p"))

    assert anyio.current_time() - started > 0.1


async def test_a_provider_the_run_does_not_know_is_refused() -> None:
    async with linked_step(shared_of_a_run()) as step:
        with pytest.raises(LeaseRefusedError, match="settings have changed"):
            await step.link.lease(ProviderSlot(provider="nobody"))


async def test_subagents_are_counted_over_all_steps() -> None:
    shared = shared_of_a_run(most_subagents=2)
    async with linked_step(shared) as first, linked_step(shared) as second:
        pools = [LinkedSpawnPool(step.link, NO_AGENTS, SubagentsConfig()) for step in (first, second)]
        for pool in pools:
            async with pool.place():
                pass
        with pytest.raises(SpawnError, match="started 2 subagents"):
            async with pools[0].place():
                pass


async def test_what_neighbours_claimed_is_asked_for_from_a_thread() -> None:
    async with linked_step(shared_of_a_run(), "tests/**", "docs/a.md") as step:
        with LinkedClaims(step.link).beside(task_of()) as others, anyio.fail_after(60):
            claimed = await anyio.to_thread.run_sync(others)

    assert tuple(claimed) == ("tests/**", "docs/a.md")


async def test_words_that_make_no_sense_end_the_service() -> None:
    shared = shared_of_a_run(limits=Limits(max_tokens=1_000))

    async def talk() -> None:
        async with linked_step(shared) as step:
            await ledger_of(step).reserve(MODEL, 100, 300)
            step.theirs.post(b"hello\n")
            await anyio.sleep_forever()

    with pytest.raises(ExceptionGroup) as caught:
        await talk()
    assert caught.group_contains(LinkError)
    assert shared.account.usage.calls == 1, "the call under way is booked"


async def test_giving_back_twice_does_nothing() -> None:
    shared = shared_of_a_run(limits=Limits(max_tokens=1_000))
    async with linked_step(shared) as step:
        granted: Granted = await step.link.lease(TurnToAsk())
        step.link.send(Returned(granted.lease))
        step.link.send(Returned(granted.lease, Usage(9, 9, 0, 1), 1.0))
        await step.link.lease(TurnToAsk())

    assert shared.account.usage == Usage()


async def test_both_ends_say_hello_and_know_what_the_other_can_do() -> None:
    ours, theirs = memory_link()
    server, step = StepServer(shared_of_a_run(), ours, tuple), StepLink(theirs)
    await server.send(Hello.own(("approvals",)))

    await step.greet((AGENTS,))

    assert await server.meet()
    assert (step.can("approvals"), step.can("questions")) == (True, False)


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (
            Hello(version=99, vibe="9.9.9"),
            r"of different versions, vibe \S+ \(protocol \d+\) here and vibe 9.9.9 \(protocol 99\)",
        ),
        (structs.replace(Hello.own(()), vibe=""), "and vibe unknown"),
        (Begin(task_of()), "the run sent no handshake"),
    ],
)
async def test_a_process_does_not_work_for_a_run_of_another_version(said: ToStep, sentence: str) -> None:
    ours, theirs = memory_link()
    await ours.send(encode(said))

    with pytest.raises(MismatchError, match=sentence):
        await StepLink(theirs).greet((AGENTS,))

    heard = await ours.receive()
    assert heard is not None
    assert from_step(heard) == Hello.own((AGENTS,)), "the run is told all the same"


async def test_a_process_that_is_gone_without_a_word_is_no_mismatch() -> None:
    ours, theirs = memory_link()
    theirs.close()

    assert not await StepServer(shared_of_a_run(), ours, tuple).meet()


async def test_a_message_that_was_given_up_before_it_was_sent_leaves_the_next_one_its_own_reply(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def no_room(message: object) -> None:  # noqa: ARG001  as the real one
        giving_up.cancel()
        await anyio.sleep_forever()

    async def listen(text: str, by: str) -> bool:  # noqa: ARG001  the port
        return text == "stay"

    async with linked_step(shared_of_a_run()) as step:
        await anyio.wait_all_tasks_blocked()
        with anyio.CancelScope() as giving_up, monkeypatch.context() as patched:
            patched.setattr(step.server, "send", no_room)
            await step.server.tell("given up")
        with step.link.steering.heard_by("s", listen, lambda: None):
            assert await step.server.tell("stay")
            assert not await step.server.tell("go")
        step.die()


async def test_what_is_said_to_an_agent_in_a_process_of_its_own_is_answered_and_no_more_after_its_death() -> None:
    heard: list[tuple[str, str]] = []

    async def listen(text: str, by: str) -> bool:
        heard.append((text, by))
        return text == "stay"

    async with linked_step(shared_of_a_run()) as step:
        await anyio.wait_all_tasks_blocked()
        assert not await step.server.tell("nobody listens")
        with step.link.steering.heard_by("s", listen, lambda: None):
            assert await step.server.tell("stay", "Ana")
            assert not await step.server.tell("too late")
        step.die()
        assert not await step.server.tell("gone")
    assert heard == [("stay", "Ana"), ("too late", "")]
