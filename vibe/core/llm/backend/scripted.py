"""ScriptedBackend: replays a script file as if it were a model, for tests, examples and demonstrations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import anyio.lowlevel
import anyio.to_thread
import msgspec
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ipc.errors import INVALID_JSON
from vibe.core.config.toml_source import dotted
from vibe.core.llm.backend.assembly import estimate_usage, finish_reason
from vibe.core.llm.errors import (
    ContextTooLongError,
    ModelAccessError,
    ModelError,
    ModelOverloadedError,
    ModelProtocolError,
    ModelRefusalError,
    ModelRequestError,
    ModelTransportError,
)
from vibe.core.llm.port import CallDelta, Completion, Delta, FinishReason, ModelObserver, ModelRequest
from vibe.core.messages import AssistantMessage, Message, ToolCall, ToolMessage, Usage, UserMessage
from vibe.system.errors import ConfigError, error_as

Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


FaultKind: TypeAlias = Literal[
    "overloaded", "transport", "access", "context_too_long", "protocol", "request", "refusal", "silent"
]
"""The faults a scripted turn can have instead of an answer: one for each class of model error, and silence."""


class ScriptedFault(_Part):
    """Makes its turn fail the first ``times`` times it is asked for, after ``after_chunks`` chunks."""

    error: FaultKind
    status: Annotated[int, Field(ge=100, le=599)] | None = None
    retry_after: Seconds | None = None
    times: Annotated[int, Field(ge=1)] = 1
    after_chunks: Count = 0


class ScriptedCall(_Part):
    """A tool call; ``arguments`` is an object, or text that is passed on unchanged, valid or not."""

    name: str
    arguments: dict[str, Any] | str = {}

    @property
    def arguments_text(self) -> str:
        """The arguments as a model would write them."""
        return self.arguments if isinstance(self.arguments, str) else msgspec.json.encode(self.arguments).decode()


class ScriptedUsage(_Part):
    """The tokens a turn reports as its usage."""

    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    cached_tokens: Count = 0


class ScriptedTurn(_Part):
    """One answer. ``delay_seconds`` is spread over its chunks of ``chunk_size`` characters (0 means one chunk)."""

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ScriptedCall, ...] = ()
    usage: ScriptedUsage | None = None
    delay_seconds: Seconds = 0.0
    chunk_size: Count = 0
    finish_reason: FinishReason | None = None
    fault: ScriptedFault | None = None


class ScriptedAgent(_Part):
    """The turns of one caller, in order."""

    turns: tuple[ScriptedTurn, ...]


class ScriptFile(_Part):
    """A whole script file."""

    version: Literal[1]
    agents: dict[str, ScriptedAgent]

    @model_validator(mode="after")
    def _has_agents(self) -> ScriptFile:
        if not self.agents:
            raise ValueError("no agents: name at least one, or '*'")
        return self

    def agent_for(self, caller: str) -> ScriptedAgent | None:
        """Return the agent for a caller: by its exact name, else the first pattern that matches, else ``*``."""
        if caller in self.agents:
            return self.agents[caller]
        matching = (agent for name, agent in self.agents.items() if name != "*" and fnmatchcase(caller, name))
        return next(matching, None) or self.agents.get("*")


def load_script(path: Path) -> ScriptFile:
    """Read a script file: JSON if its suffix is ``.json``, else YAML.

    Raises:
        ConfigError: the file can't be read or is not a script; the message names the file and the place.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "is not UTF-8 text"
        raise ConfigError(str(path), "", f"the script cannot be read ({reason}); check 'script'") from error
    return parse_script(text, source=str(path), json=path.suffix.lower() == ".json")


def parse_script(text: str, *, source: str, json: bool) -> ScriptFile:
    """Parse the text of a script.

    Raises:
        ConfigError: the text is not a script.
    """
    data = _decode_json(text, source) if json else _decode_yaml(text, source)
    try:
        return ScriptFile.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        raise ConfigError(source, dotted(first["loc"]), f"{first['msg']}{more}") from error


def _decode_json(text: str, source: str) -> object:
    with error_as(INVALID_JSON, lambda error: ConfigError(source, "", f"no valid JSON: {error}")):
        return msgspec.json.decode(text)


def _decode_yaml(text: str, source: str) -> object:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{source}:{mark.line + 1}" if mark else source
        raise ConfigError(place, "", f"no valid YAML: {getattr(error, 'problem', error)}") from error


FAULTS: Final[Mapping[FaultKind, type[ModelError]]] = {
    "overloaded": ModelOverloadedError,
    "transport": ModelTransportError,
    "access": ModelAccessError,
    "context_too_long": ContextTooLongError,
    "protocol": ModelProtocolError,
    "request": ModelRequestError,
    "refusal": ModelRefusalError,
}


class ScriptedBackend:
    """A ``ModelBackend`` whose answers come from a script file.

    The turn follows from the history alone, so another process can continue where one stopped; only faults are
    counted, per instance. The file is read in a worker thread on the first call; calls raise ``ConfigError`` if it is
    not a script. Delays last ``slowed`` times as long as the script says.
    """

    def __init__(self, path: Path, *, provider: str = "scripted", slowed: float = 1.0) -> None:
        self._path = path
        self._slowed = slowed
        self._script: ScriptFile | None = None
        self._provider = provider
        self._faults: Counter[tuple[str, int]] = Counter()

    async def complete(self, request: ModelRequest, observer: ModelObserver) -> Completion:
        """Stream the turn whose time has come; see ``ModelBackend.complete``."""
        await anyio.lowlevel.checkpoint()
        index = turn_index(request.messages)
        script = self._script = self._script or await anyio.to_thread.run_sync(load_script, self._path)
        turn = self._turn(script, request.caller, index)
        fault = self._fault_due(request.caller, index, turn)
        chunks = list(_chunks(turn))
        pause = self._slowed * turn.delay_seconds / max(1, len(chunks))
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
        """Do nothing: no connection is open."""

    def _turn(self, script: ScriptFile, caller: str, index: int) -> ScriptedTurn:
        """Return a turn of a caller.

        Raises:
            ModelRequestError: the script has no such turn.
        """
        agent = script.agent_for(caller)
        if agent is not None and index < len(agent.turns):
            return agent.turns[index]
        problem = f"no turns for agent {caller!r}: add it, or '*', under 'agents'"
        if agent is not None:
            problem = (
                f"no turn {index + 1} for agent {caller!r} (it has {len(agent.turns)}): add one, or let the last one "
                "call no tool"
            )
        raise ModelRequestError(f"{self._path} has {problem}", provider=self._provider)

    def _fault_due(self, caller: str, index: int, turn: ScriptedTurn) -> ScriptedFault | None:
        if turn.fault is None or self._faults[caller, index] >= turn.fault.times:
            return None
        self._faults[caller, index] += 1
        return turn.fault

    async def _fail(self, fault: ScriptedFault, caller: str, index: int) -> None:
        """Raise the scripted error, or never return if the fault is silence."""
        if fault.error == "silent":
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


def turn_index(messages: Sequence[Message]) -> int:
    """Return the number of finished turns: the answers in the history, except those with interrupted tool calls.

    An interrupted turn does not count because it is asked for again. If calls were cancelled, it counts only if a
    message to the model came next; without one, its work was stopped and then resumed.
    """
    index = 0
    was_cut = is_told = False
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            was_cut = was_cut or message.status == "interrupted" or (message.status == "cancelled" and not is_told)
            continue
        if isinstance(message, AssistantMessage) and not was_cut:
            index += 1
        was_cut, is_told = False, isinstance(message, UserMessage)
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
    # The ids are unique in a conversation, the same in each replay, and nine characters long, as Mistral requires.
    answers = sum(isinstance(message, AssistantMessage) for message in request.messages)
    calls = tuple(
        ToolCall(f"s{answers:05d}{number:03d}", call.name, call.arguments_text)
        for number, call in enumerate(turn.tool_calls)
    )
    message = AssistantMessage(content=turn.text, tool_calls=calls, reasoning=turn.reasoning)
    usage = estimate_usage(request, message)
    if turn.usage is not None:
        usage = Usage(turn.usage.prompt_tokens, turn.usage.completion_tokens, turn.usage.cached_tokens, calls=1)
    return Completion(
        message=message, finish_reason=turn.finish_reason or finish_reason("stop", has_calls=bool(calls)), usage=usage
    )
