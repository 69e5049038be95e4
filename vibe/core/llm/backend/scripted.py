"""Replays a script as if it were a model: for tests, examples and demonstrations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import anyio
import anyio.lowlevel
import anyio.to_thread

from vibe.core.llm.backend.assembly import estimate_usage, finish_reason
from vibe.core.llm.backend.script import FaultKind, Script, ScriptedFault, ScriptedTurn, load_script
from vibe.core.llm.errors import (
    ContextTooLongError,
    ModelAccessError,
    ModelError,
    ModelOverloadedError,
    ModelProtocolError,
    ModelRequestError,
    ModelTransportError,
)
from vibe.core.llm.port import CallDelta, Completion, Delta, ModelObserver, ModelRequest
from vibe.core.messages import AssistantMessage, Message, ToolCall, ToolMessage, Usage

FAULTS: Final[Mapping[FaultKind, type[ModelError]]] = {
    FaultKind.OVERLOADED: ModelOverloadedError,
    FaultKind.TRANSPORT: ModelTransportError,
    FaultKind.ACCESS: ModelAccessError,
    FaultKind.CONTEXT_TOO_LONG: ContextTooLongError,
    FaultKind.PROTOCOL: ModelProtocolError,
    FaultKind.REQUEST: ModelRequestError,
}


class ScriptedBackend:
    """A ``ModelBackend`` whose answers are written down.

    The turn follows from the history alone, so another process can go on where one stopped; only faults are counted,
    per instance.
    """

    def __init__(self, script: Script, *, provider: str = "scripted") -> None:
        self._script = script
        self._provider = provider
        self._faults: Counter[tuple[str, int]] = Counter()

    async def complete(self, request: ModelRequest, observer: ModelObserver) -> Completion:
        """Stream the turn that is due; see ``ModelBackend.complete``."""
        await anyio.lowlevel.checkpoint()
        index = turn_index(request.messages)
        turn = self._turn(request.caller, index)
        fault = self._fault_due(request.caller, index, turn)
        chunks = list(_chunks(turn))
        pause = turn.delay_seconds / max(1, len(chunks))
        for number, chunk in enumerate(chunks or [None]):
            if fault is not None and number >= fault.after_chunks:
                break
            if pause:
                await anyio.sleep(pause)
            if chunk is not None:
                observer.delta(chunk)
        if fault is not None:
            await self._fail(fault, request.caller, index)
        return _completion(turn, request)

    async def aclose(self) -> None:
        """Nothing is open."""

    def _turn(self, caller: str, index: int) -> ScriptedTurn:
        agent = self._script.agent_for(caller)
        if agent is None:
            raise ModelRequestError(
                f"{self._script.source} has no turns for agent {caller!r}: add it, or '*', under 'agents'",
                provider=self._provider,
            )
        if index >= len(agent.turns):
            raise ModelRequestError(
                f"{self._script.source} has no turn {index + 1} for agent {caller!r} "
                f"(it has {len(agent.turns)}): add one, or let the last one call no tool",
                provider=self._provider,
            )
        return agent.turns[index]

    def _fault_due(self, caller: str, index: int, turn: ScriptedTurn) -> ScriptedFault | None:
        if turn.fault is None or self._faults[caller, index] >= turn.fault.times:
            return None
        self._faults[caller, index] += 1
        return turn.fault

    async def _fail(self, fault: ScriptedFault, caller: str, index: int) -> None:
        if fault.error is FaultKind.SILENT:
            await anyio.sleep_forever()
        error = FAULTS[fault.error]
        code = f" (HTTP {fault.status})" if fault.status is not None else ""
        raise error(
            f"provider {self._provider!r} failed as scripted{code}: {fault.error} "
            f"in turn {index + 1} of agent {caller!r}",
            provider=self._provider,
            status=fault.status,
            retry_after=fault.retry_after,
        )


class ScriptFileBackend:
    """A ``ScriptedBackend`` whose file is read in a worker thread when the first answer is asked for.

    Calls raise ``ConfigError`` where the file is no script.
    """

    def __init__(self, path: Path, *, provider: str = "scripted") -> None:
        self._path = path
        self._provider = provider
        self._lock = anyio.Lock()
        self._loaded: ScriptedBackend | None = None

    async def complete(self, request: ModelRequest, observer: ModelObserver) -> Completion:
        """Stream the turn that is due; see ``ModelBackend.complete``."""
        backend = self._loaded or await self._load()
        return await backend.complete(request, observer)

    async def aclose(self) -> None:
        """Nothing is open."""

    async def _load(self) -> ScriptedBackend:
        # One instance for all: it counts the faults.
        async with self._lock:
            if self._loaded is None:
                script = await anyio.to_thread.run_sync(load_script, self._path)
                self._loaded = ScriptedBackend(script, provider=self._provider)
            return self._loaded


def turn_index(messages: Sequence[Message]) -> int:
    """Return how many turns are behind: answers in the history, except those whose tool calls were interrupted.

    An interrupted turn is asked again, so it does not count.
    """
    index = 0
    interrupted = False
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            interrupted = interrupted or message.status == "interrupted"
            continue
        if isinstance(message, AssistantMessage) and not interrupted:
            index += 1
        interrupted = False
    return index


def _chunks(turn: ScriptedTurn) -> Iterator[Delta]:
    for piece in _cut(turn.reasoning, turn.chunk_size):
        yield Delta(reasoning=piece)
    for piece in _cut(turn.text, turn.chunk_size):
        yield Delta(text=piece)
    for index, call in enumerate(turn.tool_calls):
        for piece in _cut(call.arguments_text, turn.chunk_size):
            yield Delta(call=CallDelta(index=index, name=call.name, arguments=piece))


def _cut(text: str, size: int) -> list[str]:
    step = size or len(text) or 1
    return [text[start : start + step] for start in range(0, len(text), step)]


def _completion(turn: ScriptedTurn, request: ModelRequest) -> Completion:
    # Unique in a conversation, the same in each replay, and nine characters long as Mistral wants them.
    said = sum(isinstance(message, AssistantMessage) for message in request.messages)
    calls = tuple(
        ToolCall(f"s{said:05d}{number:03d}", call.name, call.arguments_text)
        for number, call in enumerate(turn.tool_calls)
    )
    message = AssistantMessage(content=turn.text, tool_calls=calls, reasoning=turn.reasoning)
    usage = estimate_usage(request, message)
    if turn.usage is not None:
        usage = Usage(turn.usage.prompt_tokens, turn.usage.completion_tokens, turn.usage.cached_tokens, calls=1)
    return Completion(
        message=message,
        finish_reason=turn.finish_reason or finish_reason("stop", has_calls=bool(calls)),
        usage=usage,
        estimated=turn.usage is None,
    )
