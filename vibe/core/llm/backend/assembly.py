"""Builds one completion from the pieces of a stream, whichever provider sent them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, cast
from uuid import uuid4

import msgspec

from ipc.errors import INVALID_JSON
from vibe.core.llm.error_table import ErrorMapper
from vibe.core.llm.port import CallDelta, Completion, Delta, FinishReason, ModelObserver, ModelRequest
from vibe.core.llm.tokens import estimate_answer, estimate_prompt
from vibe.core.messages import AssistantMessage, Thought, ToolCall, Usage

_NO_ID: Final = frozenset({"", "null"})
_LENGTH_REASONS: Final = frozenset({
    "length",
    "model_length",
    "max_tokens",
    "max_output_tokens",
    "max_completion_tokens",
    "model_context_window_exceeded",
})
_FILTER_REASONS: Final = frozenset({"content_filter", "sensitive"})
_FAILURE_REASONS: Final = frozenset({"error", "network_error", "abort", "insufficient_system_resource"})
NO_REASON: Final = "the provider ended its answer without a finish_reason; it was taken as whole"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFragment:
    """A piece of a tool call. ``index`` is None where the provider gave none; ``id`` empty likewise."""

    index: int | None = None
    id: str = ""
    name: str = ""
    arguments: str | dict[str, Any] = ""


@dataclass(slots=True, kw_only=True)
class _OpenCall:
    index: int | None
    id: str
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])

    @property
    def text(self) -> str:
        return "".join(self.arguments)


class _Tagged(Enum):
    """Parts of an answer with a tag, by what came of it so far."""

    BEFORE = "before"
    INSIDE = "inside"
    BEHIND = "behind"


class TaggedReasoning:
    """Parts reasoning from an answer that begins with ``<tag>``, however the pieces are cut.

    What may still turn out to be a tag is held back; ``rest`` gives it out in the end.
    """

    def __init__(self, tag: str) -> None:
        self._opening, self._closing = f"<{tag}>", f"</{tag}>"
        self._held = ""
        self._state = _Tagged.BEFORE
        self._at_tag = False  # nothing came behind the last tag yet: line ends there are its own

    def take(self, text: str) -> tuple[str, str]:
        """Take a piece: the reasoning and the text that are certain now."""
        self._held += text
        if self._state is _Tagged.BEFORE:
            start = self._held.lstrip()
            if start.startswith(self._opening):
                self._held, self._state, self._at_tag = start.removeprefix(self._opening), _Tagged.INSIDE, True
            elif not self._opening.startswith(start):
                self._state = _Tagged.BEHIND
        if self._at_tag:
            self._held = self._held.lstrip("\n")
            self._at_tag = not self._held
        if self._state is _Tagged.INSIDE:
            return self._inside()
        if self._state is _Tagged.BEHIND:
            held, self._held = self._held, ""
            return "", held
        return "", ""

    def rest(self) -> tuple[str, str]:
        """Return what was held back."""
        held, self._held = self._held, ""
        return (held, "") if self._state is _Tagged.INSIDE else ("", held)

    def _inside(self) -> tuple[str, str]:
        thought, closing, text = self._held.partition(self._closing)
        if closing:
            text = text.lstrip("\n")
            self._held, self._state, self._at_tag = "", _Tagged.BEHIND, not text
            return thought, text
        sizes = range(len(self._closing) - 1, 0, -1)
        kept = next((size for size in sizes if thought.endswith(self._closing[:size])), 0)
        border = len(thought) - kept
        self._held = thought[border:]
        return thought[:border], ""


class AnswerBuilder:
    """Collects pieces, shows text to the observer as it comes, and builds the completion at the end.

    With a ``reasoning_tag``, text that begins with this tag is reasoning up to where the tag closes.
    """

    def __init__(self, observer: ModelObserver, reasoning_tag: str = "") -> None:
        self._observer = observer
        self._tagged = TaggedReasoning(reasoning_tag) if reasoning_tag else None
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[_OpenCall] = []
        self._thoughts: list[Thought] = []
        self._finish = ""
        self._done = False
        self._usage: Usage | None = None
        self._oddity = ""

    @property
    def finished(self) -> bool:
        """True once the provider has said why it stopped, or that it did."""
        return bool(self._finish) or self._done

    def add_text(self, text: str) -> None:
        """Take a piece of the answer."""
        if self._tagged is not None:
            thought, text = self._tagged.take(text)
            self.add_reasoning(thought)
        self._say(text)

    def _say(self, text: str) -> None:
        if text:
            self._text.append(text)
            self._observer.delta(Delta(text=text))

    def add_reasoning(self, text: str) -> None:
        """Take a piece of the reasoning."""
        if text:
            self._reasoning.append(text)
            self._observer.delta(Delta(reasoning=text))

    def add_thought(self, text: str, *, signature: str = "", sealed: str = "") -> None:
        """Take a whole thought that has to be sent back; ``add_reasoning`` has shown its text."""
        self._thoughts.append(
            Thought(
                source="",
                text=text,
                signature=signature,
                sealed=sealed,
                after_characters=sum(map(len, self._text)),
                after_calls=len(self._calls),
            )
        )

    def add_call(self, fragment: CallFragment) -> None:
        """Take a piece of a tool call and put it where its id, else its index, else its order says."""
        identity = "" if fragment.id in _NO_ID else fragment.id
        call = self._find_call(fragment, identity)
        if call is None:
            call = _OpenCall(index=fragment.index, id=identity)
            self._calls.append(call)
        call.id = call.id or identity
        call.name = call.name or fragment.name
        text = fragment.arguments
        if isinstance(text, dict):
            text = msgspec.json.encode(text).decode()
            call.arguments = [text]
        elif text:
            call.arguments.append(text)
        if call.name:
            piece = CallDelta(index=self._calls.index(call), name=call.name, arguments=text, id=call.id)
            self._observer.delta(Delta(call=piece))

    def _find_call(self, fragment: CallFragment, identity: str) -> _OpenCall | None:
        if identity:
            known = next((call for call in self._calls if call.id == identity), None)
            if known is not None:
                return known
        candidates = [call for call in self._calls if fragment.index is None or call.index == fragment.index]
        if not candidates:
            return None
        last = candidates[-1]
        if identity and last.id:
            return None
        # A name where one is there already, after complete arguments: the next call of a provider that gives no ids.
        if fragment.name and last.name and is_json_object(last.text):
            return None
        return last

    def add_usage(self, fields: Mapping[str, Any]) -> None:
        """Take the provider's own count; the last one given wins, a count of nothing is none."""
        self.count(read_usage(fields))

    def count(self, usage: Usage) -> None:
        """Take the provider's own count as it was read."""
        if usage.total_tokens:
            self._usage = usage

    def finish(self, reason: str) -> None:
        """Hear why the provider stopped, in its own word."""
        self._finish = reason

    def end(self) -> None:
        """Hear that the provider sent all it had to send."""
        self._done = True

    def note(self, oddity: str) -> None:
        """Take a sentence about what was odd with how the answer came."""
        self._oddity = oddity

    def build(self, request: ModelRequest, errors: ErrorMapper) -> Completion:
        """The whole answer.

        Raises:
            ModelProtocolError: the provider never said why it stopped, or said that it failed.
            ModelRequestError: its content filter stopped it.
        """
        if self._tagged is not None:
            thought, text = self._tagged.rest()
            self.add_reasoning(thought)
            self._say(text)
        if not (self._finish or self._is_whole()):
            raise errors.protocol("ended its answer without a finish_reason")
        if self._finish.lower() in _FAILURE_REASONS:
            raise errors.protocol(f"ended its answer with finish_reason {self._finish!r}")
        if self._finish.lower() in _FILTER_REASONS:
            raise errors.request("stopped the answer with its content filter")
        message = AssistantMessage(
            content="".join(self._text),
            reasoning="".join(self._reasoning),
            tool_calls=tuple(ToolCall(call.id or uuid4().hex[:9], call.name, call.text) for call in self._calls),
            thoughts=tuple(msgspec.structs.replace(one, source=source_of(request)) for one in self._thoughts),
        )
        usage, estimated = self._usage, self._usage is None
        if usage is None:
            usage = estimate_usage(request, message)
        return Completion(
            message=message,
            finish_reason=finish_reason(self._finish, has_calls=bool(self._calls)),
            usage=usage,
            estimated=estimated,
            oddity=self._oddity or ("" if self._finish else NO_REASON),
        )

    def _is_whole(self) -> bool:
        """Return whether an answer without a reason is whole: its end was told, it says something, no call is torn."""
        said = any(text.strip() for text in self._text) or bool(self._calls)
        return self._done and said and all(call.name and is_json_object(call.text) for call in self._calls)


def source_of(request: ModelRequest) -> str:
    """Return who is asked, as a ``Thought`` remembers it."""
    return f"{request.model.provider}/{request.model.name}"


def finish_reason(reason: str, *, has_calls: bool) -> FinishReason:
    """Our word for a provider's: some say ``stop`` although they call tools."""
    if reason.lower() in _LENGTH_REASONS:
        return FinishReason.LENGTH
    return FinishReason.TOOL_CALLS if has_calls else FinishReason.STOP


def estimate_usage(request: ModelRequest, message: AssistantMessage) -> Usage:
    """Usage of a call that came without one."""
    return Usage(prompt_tokens=estimate_prompt(request), completion_tokens=estimate_answer(message), calls=1)


def read_usage(fields: Mapping[str, Any]) -> Usage:
    """Usage of one call from a provider's table; cached tokens are told in three places by different providers."""
    details: object = fields.get("prompt_tokens_details")
    nested = cast("dict[str, Any]", details).get("cached_tokens") if isinstance(details, dict) else None
    places = (nested, fields.get("prompt_cache_hit_tokens"), fields.get("num_cached_tokens"))
    prompt = _count(fields.get("prompt_tokens"))
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=_count(fields.get("completion_tokens")),
        cached_tokens=min(prompt, max(_count(place) for place in places)),
        calls=1,
    )


def is_json_object(text: str) -> bool:
    """Return whether ``text`` is one whole JSON object."""
    try:
        msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except INVALID_JSON:
        return False
    return True


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
