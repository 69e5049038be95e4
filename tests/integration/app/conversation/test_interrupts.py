"""Interruptions at random moments: of a stream, a command, an edit or a question, and between them."""

from __future__ import annotations

import json
import random
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import anyio
from anyio import to_thread

from ipc.events import ApprovalRequestEvent, AssistantDeltaEvent, AssistantEvent
from tests.fakes.model_server import Received, Reply, ServedCall
from tests.integration.app.conversation.conftest import Rig
from vibe.app.conversation.conversation import Conversation
from vibe.app.conversation.runtime import Runtime
from vibe.core.config.paths import VibePaths
from vibe.core.messages import AssistantMessage, Message, Outcome, ToolMessage, UserMessage
from vibe.core.session.folder import SessionFolder, Transcript
from vibe.core.tools.permissions import ApprovalMode
from vibe.core.tools.ports import ApprovalAnswer

INTERRUPTS = 200
PROMPTS_PER_SESSION = 20
LONGEST_SECONDS = 0.1
SLEEPER = "sleep 6432"


class Slow:
    """A person who approves slowly, or never answers."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice

    async def approve(self, request: ApprovalRequestEvent) -> ApprovalAnswer:
        await anyio.sleep(self._dice.choice([0.0, 0.02, 600.0]))
        return ApprovalAnswer(allow=True, reason=request.reason)


def problems_of(messages: Sequence[Message]) -> list[str]:
    """Return what a provider would refuse: calls without result, results without call, an answer at the start."""
    problems: list[str] = []
    open_calls: list[str] = []
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in open_calls:
                problems.append(f"{index}: a result of no call")
            else:
                open_calls.remove(message.tool_call_id)
            continue
        if open_calls:
            problems.append(f"{index}: {open_calls} without a result")
        open_calls = [call.id for call in message.tool_calls] if isinstance(message, AssistantMessage) else []
    return problems + ([f"{open_calls} at the end"] if open_calls else [])


async def test_after_each_of_two_hundred_interrupts_the_conversation_is_whole_and_goes_on(rig: Rig) -> None:
    dice = random.Random(20_261_123)

    def answer(request: Received) -> Reply:
        last = request.body.get("messages", [{"role": "user", "content": ""}])[-1]  # a leaving client may send none
        if last["role"] == "user" and last["content"] == "ping":
            return Reply(text="pong")
        call_id = f"c{len(rig.server.requests)}"
        write = {"path": f"{call_id}.txt", "content": "x"}
        return dice.choice([
            Reply(text="one two three four five", silent_after=dice.randint(1, 6)),
            Reply(text="said and done"),
            Reply(tool_calls=(ServedCall(name="bash", arguments=json.dumps({"command": SLEEPER}), id=call_id),)),
            Reply(tool_calls=(ServedCall(name="bash", arguments=json.dumps({"command": "true"}), id=call_id),)),
            Reply(text="writing", tool_calls=(ServedCall(name="write_file", arguments=json.dumps(write), id=call_id),)),
        ])

    rig.server.responder = answer
    interrupted = 0
    mode = ApprovalMode.ALL
    async with Runtime(rig.host) as runtime:
        while interrupted < INTERRUPTS:
            mode = ApprovalMode.ASK if mode is ApprovalMode.ALL else ApprovalMode.ALL
            conversation = await runtime.open_conversation(rig.opening(approvals=mode), rig.seat_of(Slow(dice)))
            for _ in range(PROMPTS_PER_SESSION):
                outcome = await interrupted_after(conversation, dice.random() * LONGEST_SECONDS)
                interrupted += outcome is Outcome.INTERRUPTED
                assert problems_of(conversation.messages) == []
            pong = await conversation.send("ping")
            assert (pong.acted.outcome, pong.acted.text.strip()) == (Outcome.COMPLETED, "pong")
            await conversation.aclose()
            on_disk = await to_thread.run_sync(Transcript.peek, transcript_of(rig, conversation.session_id))
            assert on_disk.messages == list(conversation.messages)
            check_that_no_word_is_lost(rig, conversation.messages)
            rig.events.events.clear()
    sleepers = await to_thread.run_sync(
        lambda: subprocess.run(["pgrep", "-f", SLEEPER], capture_output=True, text=True, check=False).stdout
    )
    assert sleepers == ""


async def interrupted_after(conversation: Conversation, seconds: float) -> Outcome:
    """Send a prompt, interrupt it if it has not ended after ``seconds``, and return its outcome."""

    async def stop() -> None:
        await anyio.sleep(seconds)
        conversation.interrupt()

    async with anyio.create_task_group() as group:
        group.start_soon(stop)
        result = await conversation.send("work")
        group.cancel_scope.cancel()
        return result.acted.outcome
    raise AssertionError("nothing is left by a cancellation")


def transcript_of(rig: Rig, session_id: str) -> Path:
    return SessionFolder(VibePaths(rig.host.home).sessions / session_id).transcript


def check_that_no_word_is_lost(rig: Rig, messages: Sequence[Message]) -> None:
    """Check that all text streamed to the person is in the conversation, complete or as far as it came."""
    streamed: dict[str, str] = defaultdict(str)
    for event in rig.seen(AssistantDeltaEvent):
        streamed[event.message_id] += event.text
    ends = {event.message_id: event for event in rig.seen(AssistantEvent)}
    kept = [message.content for message in messages if isinstance(message, AssistantMessage)]
    for message_id, text in streamed.items():
        if text.strip():
            assert ends[message_id].text == text
            assert text in kept
    assert not any(isinstance(message, UserMessage) and not message.content for message in messages)
