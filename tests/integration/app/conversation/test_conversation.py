"""One session over many prompts: steered, interrupted, reconfigured, compacted, cleared, rewound and copied."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
import pytest
from anyio import to_thread
from msgspec.structs import replace

from ipc.commands import GivePrompt, Interrupt, Steer
from ipc.control import send_command
from ipc.events import (
    AssistantDeltaEvent,
    ConversationClearedEvent,
    ConversationConfiguredEvent,
    ConversationRewoundEvent,
    PromptEndedEvent,
    PromptStartedEvent,
    ToolCallEvent,
    UserMessageEvent,
)
from tests.fakes.model_server import Reply, ServedCall
from tests.integration.app.conversation.conftest import Rig
from vibe.app.conversation.conversation import BusyError
from vibe.app.conversation.opening import AgentChange, PromptLimits
from vibe.app.conversation.runtime import Runtime
from vibe.core.agent_loop import INTERRUPTED_NOTICE
from vibe.core.config.paths import VibePaths
from vibe.core.messages import AssistantMessage, Image, Message, Outcome
from vibe.core.session.folder import SessionLoader, SessionMeta, Transcript
from vibe.core.tools.permissions import ApprovalMode
from vibe.system.errors import UsageError
from vibe.view.view import View, apply

T = TypeVar("T")
PIXEL = Image("image/png", "iVBORw0KGgo=")


def write(path: str, content: str, call_id: str = "w1") -> ServedCall:
    return ServedCall(
        name="write_file", arguments=json.dumps({"path": path, "content": content, "overwrite": True}), id=call_id
    )


def asked(rig: Rig, number: int) -> list[dict[str, Any]]:
    """Return the messages of a request, without the system prompt."""
    return rig.server.requests[number].body["messages"][1:]


async def saved(rig: Rig, session_id: str) -> tuple[SessionMeta, list[Message]]:
    """Return a session as it is on disk: its metadata and its messages."""

    def read() -> tuple[SessionMeta, list[Message]]:
        found = SessionLoader(VibePaths(rig.host.home).sessions).find(session_id, rig.folder)
        return found.meta, Transcript.peek(found.folder.transcript).messages

    return await to_thread.run_sync(read)


async def during(work: Awaitable[T], meanwhile: Callable[[], Awaitable[object]]) -> T:
    """Return the result of some work, while something else is done beside it."""
    results: list[T] = []

    async def keep() -> None:
        results.append(await work)

    async with anyio.create_task_group() as group:
        group.start_soon(keep)
        await meanwhile()
    return results[0]


async def until_seen(rig: Rig, kind: type[Any], times: int = 1) -> None:
    with anyio.fail_after(60):
        while len(rig.seen(kind)) < times:  # noqa: ASYNC110  the events come from elsewhere
            await anyio.sleep(0.005)


async def test_prompts_share_one_session_and_each_has_its_own_end(rig: Rig) -> None:
    rig.server.enqueue(Reply(text="hello"), Reply(text="again"))
    async with Runtime(rig.host) as runtime:
        conversation = await runtime.open_conversation(rig.opening(), rig.seat)
        first = await conversation.send("hi")
        second = await conversation.send("and now?")
        await conversation.aclose()

    assert (first.acted.text.strip(), second.acted.text.strip()) == ("hello", "again")
    assert (first.usage.total_tokens, second.usage.total_tokens) == (18, 18)
    assert conversation.account.usage.total_tokens == 36
    assert [message["role"] for message in asked(rig, 1)] == ["user", "assistant", "user"]
    ends = rig.seen(PromptEndedEvent)
    assert [(event.outcome, event.usage.calls) for event in ends] == [("completed", 1), ("completed", 1)]
    assert len({event.prompt_id for event in rig.seen(PromptStartedEvent)}) == 2
    meta, messages = await saved(rig, conversation.session_id)
    assert (meta.outcome, meta.title, len(messages)) == ("completed", "hi", 4)


async def test_a_denial_of_one_prompt_does_not_colour_the_next(rig: Rig) -> None:
    rig.server.enqueue(Reply(tool_calls=(write("b.txt", "x"),)), Reply(text="could not"), Reply(text="fine"))
    async with Runtime(rig.host) as runtime:
        conversation = await runtime.open_conversation(rig.opening(approvals=ApprovalMode.ASK), rig.seat)
        assert (await conversation.send("write")).acted.outcome is Outcome.BLOCKED
        assert (await conversation.send("never mind")).acted.outcome is Outcome.COMPLETED


async def test_one_prompt_at_a_time(rig: Rig) -> None:
    rig.server.enqueue(Reply(text="a b c", silent_after=2))
    async with Runtime(rig.host) as runtime:
        conversation = await runtime.open_conversation(rig.opening(), rig.seat)

        async def try_more() -> None:
            await until_seen(rig, AssistantDeltaEvent)
            with pytest.raises(BusyError):
                await conversation.send("second")
            for change in (conversation.clear, conversation.compact, conversation.fork):
                with pytest.raises(BusyError):
                    await change()
            assert conversation.interrupt()

        await during(conversation.send("first"), try_more)
        assert not conversation.is_busy


async def test_an_interrupted_answer_stays_as_far_as_it_went_and_the_next_prompt_works(rig: Rig) -> None:
    rig.server.enqueue(Reply(text="one two three", silent_after=3), Reply(text="as you wish"))
    async with Runtime(rig.host) as runtime:
        conversation = await runtime.open_conversation(rig.opening(), rig.seat)

        async def stop() -> None:
            await until_seen(rig, AssistantDeltaEvent, 2)
            assert conversation.interrupt()

        cut = await during(conversation.send("count"), stop)
        after = await conversation.send("stop counting")

    assert (cut.acted.outcome, cut.acted.reason) == (Outcome.INTERRUPTED, "stopped")
    assert not conversation.interrupt()
    roles = [(message["role"], message["content"]) for message in asked(rig, 1)]
    assert roles[:3] == [("user", "count"), ("assistant", "one two "), ("user", INTERRUPTED_NOTICE)]
    assert after.acted.outcome is Outcome.COMPLETED
    _, messages = await saved(rig, conversation.session_id)
    assert [
        message.content for message in messages if isinstance(message, AssistantMessage) and message.interrupted
    ] == ["one two "]


async def test_an_interrupted_command_leaves_no_process(rig: Rig) -> None:
    beat = ServedCall(name="bash", arguments=json.dumps({"command": "echo $$ > pid; exec sleep 6123"}))
    rig.server.enqueue(Reply(tool_calls=(beat,)), Reply(text="stopped"))
    pid = rig.folder / "pid"
    async with Runtime(rig.host) as runtime:
        conversation = await runtime.open_conversation(rig.opening(), rig.seat)

        async def stop() -> None:
            with anyio.fail_after(60):
                while not (pid.exists() and pid.read_text().strip()):  # noqa: ASYNC110  another process writes it
                    await anyio.sleep(0.01)
            conversation.interrupt()

        cut = await during(conversation.send("wait"), stop)
        assert cut.acted.outcome is Outcome.INTERRUPTED
        await conversation.send("go on")

    tool = next(message for message in asked(rig, 1) if message["role"] == "tool")
    assert "cancelled" in tool["content"]
    assert not await to_thread.run_sync(sleepers)


def sleepers() -> list[str]:
    """Return the ids of the processes that still wait."""
    return subprocess.run(["pgrep", "-f", "sleep 6123"], capture_output=True, text=True, check=False).stdout.split()


async def test_what_is_said_meanwhile_reaches_the_agent_before_it_ends(rig: Rig) -> None:
    steered: list[bool] = []

    def answer(_request: Any) -> Reply:
        number = len(rig.server.requests)
        return Reply(tool_calls=(write("b.txt", "x"),)) if number == 1 else Reply(text=f"answer {number}")

    rig.server.responder = answer
    async with Runtime(rig.host) as runtime:
        conversation = await runtime.open_conversation(rig.opening(), rig.seat)
        assert not conversation.steer("nobody listens")

        async def say() -> None:
            await until_seen(rig, ToolCallEvent)
            steered.append(conversation.steer("and mind the docs"))

        result = await during(conversation.send("write"), say)

    assert steered == [True]
    assert result.acted.outcome is Outcome.COMPLETED
    assert {"role": "user", "content": "and mind the docs"} in asked(rig, -1)


async def test_agent_model_and_approvals_change_in_mid_session_and_nothing_is_lost(rig: Rig) -> None:
    todo = ServedCall(
        name="todo",
        arguments=json.dumps({"action": "write", "todos": [{"id": "1", "content": "tests", "status": "pending"}]}),
    )
    look = ServedCall(name="todo", arguments=json.dumps({"action": "read"}))
    read = ServedCall(name="read_file", arguments=json.dumps({"path": "a.txt"}), id="r1")
    rig.server.enqueue(
        Reply(tool_calls=(todo, read)),
        Reply(text="noted"),
        Reply(tool_calls=(look,)),
        Reply(text="still there"),
        Reply(tool_calls=(write("a.txt", "two\n", "w2"),)),
        Reply(text="done"),
    )
    async with Runtime(rig.host) as runtime:
        conversation = await runtime.open_conversation(rig.opening(approvals=ApprovalMode.ASK), rig.seat)
        await conversation.send("note")
        await conversation.configure(AgentChange(agent="plan", model="second"))
        await conversation.send("look")
        await conversation.configure(AgentChange(agent="default", approvals=ApprovalMode.ALL))
        await conversation.send("overwrite a.txt, which you have read")

    assert rig.server.requests[2].body["model"] == "m2"
    offered = {tool["function"]["name"] for tool in rig.server.requests[2].body["tools"]}
    assert "write_file" not in offered
    assert any("tests" in message["content"] for message in asked(rig, 3) if message["role"] == "tool")
    assert (rig.folder / "a.txt").read_text() == "two\n"
    changes = rig.seen(ConversationConfiguredEvent)
    assert [event.changed for event in changes] == [("agent", "model"), ("agent", "model", "approvals")]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, [ApprovalMode.EDITS, ApprovalMode.ALL, ApprovalMode.ASK]),
        (ApprovalMode.EDITS, [ApprovalMode.EDITS] * 3),
    ],
)
async def test_an_agent_brings_its_approvals_unless_a_person_gave_some_on_the_command_line(
    rig: Rig, given: ApprovalMode | None, expected: list[ApprovalMode]
) -> None:
    async with Runtime(rig.host) as runtime:
        conversation = await runtime.open_conversation(rig.opening(approvals=given), rig.seat)
        await conversation.configure(AgentChange(approvals=ApprovalMode.EDITS))
        modes: list[ApprovalMode] = []
        for agent in ("plan", "auto-approve", "default"):
            await conversation.configure(AgentChange(agent=agent))
            modes.append(conversation.approvals.mode)

    assert modes == expected


async def test_a_change_that_cannot_be_changes_nothing(rig: Rig) -> None:
    rig.server.enqueue(Reply(text="hello"))
    async with Runtime(rig.host) as runtime:
        conversation = await runtime.open_conversation(rig.opening(), rig.seat)
        for change in (AgentChange(agent="nobody"), AgentChange(model="none")):
            with pytest.raises(UsageError):
                await conversation.configure(change)
        assert (await conversation.send("hi")).acted.outcome is Outcome.COMPLETED
    assert rig.server.requests[0].body["model"] == "m1"


async def test_an_unknown_command_says_nothing(rig: Rig) -> None:
    async with Runtime(rig.host) as runtime:
        conversation = await runtime.open_conversation(rig.opening(), rig.seat)
        with pytest.raises(UsageError, match="no-such"):
            await conversation.send("/no-such thing")
        assert conversation.messages == []
    assert [event.outcome for event in rig.seen(PromptEndedEvent)] == ["failed"]
    assert rig.server.requests == []


async def test_a_limit_counts_for_one_prompt(rig: Rig) -> None:
    rig.server.enqueue(*(Reply(tool_calls=(write("b.txt", str(n), f"w{n}"),)) for n in range(3)), Reply(text="done"))
    async with Runtime(rig.host) as runtime:
        conversation = await runtime.open_conversation(rig.opening(), rig.seat)
        first = await conversation.send("write", limits=PromptLimits(max_turns=1))
        second = await conversation.send("go on", limits=PromptLimits(max_turns=4))

    assert (first.acted.outcome, first.acted.reason) == (Outcome.LIMIT, "turns")
    assert second.acted.outcome is Outcome.COMPLETED


async def test_pictures_go_with_a_prompt(rig: Rig) -> None:
    rig.server.enqueue(Reply(text="a pixel"))
    async with Runtime(rig.host) as runtime:
        conversation = await runtime.open_conversation(rig.opening(), rig.seat)
        await conversation.send("look", images=(PIXEL,))

    content = asked(rig, 0)[0]["content"]
    assert content[1]["image_url"]["url"] == f"data:image/png;base64,{PIXEL.data}"


async def test_a_cleared_conversation_begins_without_a_message(rig: Rig) -> None:
    rig.server.enqueue(Reply(text="hello"), Reply(text="who are you?"))
    async with Runtime(rig.host) as runtime:
        conversation = await runtime.open_conversation(rig.opening(), rig.seat)
        await conversation.send("hi")
        before = conversation.session_id
        await conversation.clear()
        assert conversation.messages == []
        await conversation.send("do you know me?")
        after = conversation.session_id

    assert before != after
    assert [message["content"] for message in asked(rig, 1)] == ["do you know me?"]
    meta, messages = await saved(rig, before)
    assert (meta.outcome, len(messages)) == ("cleared", 2)
    assert [event.new_session_id for event in rig.seen(ConversationClearedEvent)] == [after]


async def test_a_conversation_is_taken_back_in_place_with_the_files(rig: Rig) -> None:
    rig.server.enqueue(
        Reply(text="hello"),
        Reply(tool_calls=(write("b.txt", "new\n"),)),
        Reply(text="written"),
        Reply(text="as if nothing had been"),
    )
    async with Runtime(rig.host) as runtime:
        conversation = await runtime.open_conversation(rig.opening(), rig.seat)
        await conversation.send("hi")
        await conversation.send("write b.txt")
        assert (rig.folder / "b.txt").exists()
        with pytest.raises(UsageError, match="is not a point to rewind to"):
            await conversation.rewind(99)
        report = await conversation.rewind(2)
        assert not (rig.folder / "b.txt").exists()
        await conversation.send("what now?")

    assert report.files.deleted == ("b.txt",)
    assert [message["content"].strip() for message in asked(rig, 3)] == ["hi", "hello", "what now?"]
    assert [(event.message_index, event.prompt) for event in rig.seen(ConversationRewoundEvent)] == [(2, "write b.txt")]


async def test_a_conversation_is_summarised_on_request(rig: Rig) -> None:
    talk = [Reply(text=f"answer {n} " + "word " * 300) for n in range(4)]
    rig.server.enqueue(*talk, Reply(text="we talked"), Reply(text="go on"))
    async with Runtime(rig.host) as runtime:
        conversation = await runtime.open_conversation(rig.opening(), rig.seat)
        for number in range(4):
            await conversation.send(f"prompt {number}")
        stopped = await conversation.send("one more", limits=PromptLimits(max_tokens=1))
        assert stopped.acted.outcome is Outcome.LIMIT
        assert await conversation.compact("the numbers")
        await conversation.send("and then?")

    summary_request = rig.server.requests[4].body["messages"]
    assert "Keep above all: the numbers" in summary_request[0]["content"]
    assert "we talked" in asked(rig, 5)[0]["content"]
    assert len(asked(rig, 5)) < 9
    seen = View()
    for event in rig.events.events:
        apply(seen, event)
    assert list(seen.agents) == [conversation.conversation_id]  # an observer sees the same agent go on
    assert conversation.session_id != conversation.conversation_id


async def test_a_copy_is_another_session_and_goes_its_own_way(rig: Rig) -> None:
    rig.server.enqueue(Reply(text="hello"), Reply(text="here"), Reply(text="there"), Reply(text="beside"))
    async with Runtime(rig.host) as runtime:
        conversation = await runtime.open_conversation(rig.opening(), rig.seat)
        await conversation.send("hi")
        copy = await runtime.open_conversation(rig.opening(resume=await conversation.fork()))
        await conversation.send("here?")
        await copy.send("there?")
        branch = await runtime.open_conversation(rig.opening(resume=conversation.session_id, fork=True))
        await branch.send("beside?")

    assert len({conversation.session_id, copy.session_id, branch.session_id}) == 3
    assert [message["content"].strip() for message in asked(rig, 2)] == ["hi", "hello", "there?"]
    assert [message["content"].strip() for message in asked(rig, 3)] == ["hi", "hello", "here?", "here", "beside?"]


async def test_the_users_own_command_is_run_and_told(rig: Rig) -> None:
    rig.server.enqueue(Reply(text="I see"))
    async with Runtime(rig.host) as runtime:
        conversation = await runtime.open_conversation(rig.opening(), rig.seat)
        seen = await conversation.shell("echo $((6*7)); false")
        await conversation.shell("echo secret", tell_model=False)
        await conversation.send("well?")

    assert seen is not None
    assert (seen.exit_code, seen.stdout) == (1, "42\n")
    told = asked(rig, 0)
    assert [message["content"] for message in told] == [
        "I ran this in the shell:\n$ echo $((6*7)); false\n42\n[exit code 1]",
        "well?",
    ]


async def test_secrets_that_the_users_own_command_prints_are_told_to_no_one(rig: Rig) -> None:
    rig.server.enqueue(Reply(text="I see"))
    environ = {**rig.host.environ, "DEPLOY_TOKEN": "s3cr3t-of-mine", "DEPLOY_KEY": "first line of it\nlast line of it"}
    async with Runtime(replace(rig.host, environ=environ)) as runtime:
        conversation = await runtime.open_conversation(rig.opening(), rig.seat)
        seen = await conversation.shell(
            'echo "$DEPLOY_TOKEN"; echo "$DEPLOY_KEY" | tail -n 1; printf %s "$SERVED_KEY$HOME"'
        )
        await conversation.send("well?")

    assert seen is not None
    assert seen.stdout.startswith("[redacted]\n[redacted]\n")
    shown = f"{rig.events.events} {asked(rig, 0)}"
    assert "[redacted]" in shown
    assert "s3cr3t-of-mine" not in shown.replace("$DEPLOY", "")
    assert "last line of it" not in shown


async def test_the_users_own_command_prints_in_colour_and_the_agent_is_told_without(rig: Rig) -> None:
    line = (
        r"test -t 1 && test -t 2 && ! test -t 0 && printf '10%%\r\033[32m100%%\033[0m\n' && printf err >&2; tty; exit 3"
    )
    async with Runtime(rig.host) as runtime:
        conversation = await runtime.open_conversation(rig.opening(), rig.seat)
        seen = await conversation.shell(line, in_colour=True)
        piped = await conversation.shell("test -t 1 || echo piped", tell_model=False)
        told = conversation.messages[0].content

    assert seen is not None
    assert (seen.exit_code, seen.stdout, seen.stderr) == (3, "10%\r\x1b[32m100%\x1b[0m\nnot a tty\n", "err")
    assert piped is not None
    assert piped.stdout == "piped\n"
    assert told == f"I ran this in the shell:\n$ {line}\n100%\nnot a tty\nerr\n[exit code 3]"


async def test_others_may_prompt_steer_and_interrupt_over_the_control_address(rig: Rig) -> None:
    rig.server.enqueue(Reply(text="one two", silent_after=3))
    prompts: list[str] = []
    async with Runtime(rig.host) as runtime:
        seat = replace(rig.seat, prompted=prompts.append)
        conversation = await runtime.open_conversation(rig.opening(), seat)
        run = conversation.channel.bus.entry
        assert (await send_command(run, GivePrompt(text="hi"))).ok
        assert not (await send_command(run, Steer(text="too early"))).ok

        async def meddle() -> None:
            await until_seen(rig, AssistantDeltaEvent)
            elsewhere = await send_command(run, Interrupt(session_id="another"))
            assert (elsewhere.ok, elsewhere.reason) == (False, "refused")
            assert (await send_command(run, Steer(text="mind the tests", by="Ana"))).ok
            assert (await send_command(run, Interrupt(session_id=conversation.session_id))).ok

        cut = await during(conversation.send("count"), meddle)
        assert (await send_command(run, Interrupt())).message == "nothing is running"

    assert prompts == ["hi"]
    assert cut.acted.outcome is Outcome.INTERRUPTED
    assert [message.content.strip() for message in conversation.messages][-1] == "mind the tests"
    said = [event for event in rig.events.events if isinstance(event, UserMessageEvent)]
    assert [(event.text, event.by) for event in said] == [("count", ""), ("mind the tests", "Ana")]


async def test_a_conversation_that_takes_no_prompts_says_so(rig: Rig) -> None:
    async with Runtime(rig.host) as runtime:
        conversation = await runtime.open_conversation(rig.opening(), rig.seat)
        reply = await send_command(conversation.channel.bus.entry, GivePrompt(text="hi"))

    assert not reply.ok
    assert "this run answers prompts" in reply.message


async def test_a_conversation_is_closed_once_what_was_at_work_is_written_down(rig: Rig) -> None:
    rig.server.enqueue(Reply(text="one two", silent_after=3))
    async with Runtime(rig.host) as runtime:
        conversation = await runtime.open_conversation(rig.opening(), rig.seat)
        at_close: list[Message] = []

        async def close() -> None:
            await until_seen(rig, AssistantDeltaEvent)
            await conversation.aclose(Outcome.INTERRUPTED)
            _, messages = await saved(rig, conversation.session_id)
            at_close.extend(messages)

        cut = await during(conversation.send("count"), close)
        for refused in (conversation.send("more"), conversation.clear(), conversation.shell("true")):
            with pytest.raises(UsageError, match="the conversation is closed: resume session"):
                await refused

    assert cut.acted.outcome is Outcome.INTERRUPTED
    assert [message.content.strip() for message in at_close][::2] == ["count", INTERRUPTED_NOTICE]
    assert [type(event).__name__ for event in rig.events.events][-2:] == ["PromptEndedEvent", "SessionEndedEvent"]
