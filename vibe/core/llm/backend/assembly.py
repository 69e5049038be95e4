"""AnswerBuilder: builds a completion from the pieces of a provider's stream."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from encodings.utf_16_le import IncrementalDecoder
from typing import Any, Final
from uuid import uuid4

import msgspec

from ipc.errors import INVALID_JSON
from vibe.core.llm.backend.tool_schemas import as_declared
from vibe.core.llm.error_table import ErrorMapper
from vibe.core.llm.port import CallDelta, Completion, Delta, FinishReason, ModelObserver, ModelRequest
from vibe.core.llm.tokens import estimate_answer, estimate_prompt
from vibe.core.messages import AssistantMessage, Thought, ToolCall, Usage
from vibe.core.schemas import table_of, whole_number

_NOT_IN_NAMES: Final = re.compile(r"[^\w-]+")
HALF_BASE: Final = 0x100000
"""The offset that turns half a surrogate pair, which no text can hold, into a private-use character."""
_HALF: Final = re.compile("[\U0010d800-\U0010dfff]")


class TaggedReasoning:
    """Separates the reasoning from the text of an answer that begins with ``<tag>``, however the pieces are cut.

    A piece that may still turn out to be a tag is held back; ``rest`` returns it in the end.
    """

    def __init__(self, tag: str) -> None:
        self._opening, self._closing = f"<{tag}>", f"</{tag}>"
        self._awaited = self._opening  # the tag that may come next; empty if all the rest is text
        self._held = ""
        self._at_tag = False  # the last tag was just read: line ends directly after it belong to it

    def take(self, text: str) -> tuple[str, str]:
        """Add a piece; return the reasoning and the text that are certain now."""
        self._held += text
        if self._awaited == self._opening:
            start = self._held.lstrip()
            if start.startswith(self._opening):
                self._held, self._awaited, self._at_tag = start.removeprefix(self._opening), self._closing, True
            elif not self._opening.startswith(start):
                self._awaited = ""
        if self._at_tag:
            self._held = self._held.lstrip("\n")
            self._at_tag = not self._held
        if self._awaited == self._closing:
            return self._inside()
        if not self._awaited:
            held, self._held = self._held, ""
            return "", held
        return "", ""

    def rest(self) -> tuple[str, str]:
        """Return the reasoning and the text that were held back."""
        held, self._held = self._held, ""
        return (held, "") if self._awaited == self._closing else ("", held)

    def split_whole(self, text: str) -> tuple[str, str]:
        """Split a whole text that has a closing tag but no opening one, which some servers drop."""
        thought, closing, rest = text.partition(self._closing)
        return (thought, rest.lstrip("\n")) if closing and self._opening not in thought else ("", text)

    def _inside(self) -> tuple[str, str]:
        """Return the reasoning up to the closing tag, or up to what may be its start, and the text after it."""
        thought, closing, text = self._held.partition(self._closing)
        if closing:
            text = text.lstrip("\n")
            self._held, self._awaited, self._at_tag = "", "", not text
            return thought, text
        sizes = range(len(self._closing) - 1, 0, -1)
        kept = next((size for size in sizes if thought.endswith(self._closing[:size])), 0)
        border = len(thought) - kept
        self._held = thought[border:]
        return thought[:border], ""


_LENGTH_REASONS: Final = frozenset({
    "length", "model_length", "max_tokens", "max_output_tokens", "max_completion_tokens", "max_length",
    "model_context_window_exceeded", "max_tokens_exceeded", "incomplete",
})  # fmt: skip
_FILTER_REASONS: Final = frozenset({
    "content_filter", "content_filtered", "guardrail_intervened", "sensitive", "safety", "prohibited_content",
    "recitation", "blocklist", "spii", "refusal",
})  # fmt: skip
PAUSE: Final = "pause_turn"
"""The stop reason of a provider whose own tools take long: it continues when asked again."""
FAILURE_REASONS: Final = frozenset({
    "error", "network_error", "abort", "aborted", "cancelled", "insufficient_system_resource",
    "malformed_function_call", "timeout", "failed", "internal_error", "server_error", "engine_error",
    "unexpected_tool_call", "too_many_tool_calls", "missing_thought_signature",
})  # fmt: skip
"""Stop reasons by which a provider says that it failed. The call is worth another try."""
_CALL_REASONS: Final = frozenset({"tool_calls", "tool_use", "function_call"})
_BAD_REASONS: Final = _LENGTH_REASONS | _FILTER_REASONS | FAILURE_REASONS
_NOTHING: Final = frozenset({"", "null"})
EMPTY: Final = "{}"
"""An empty object, which some gateways send before the arguments."""
_BEFORE: Final = re.compile(r"\s*(?:```[\w-]*|<\|?[\w:.-]+\|?>|\{\}|null|\[)?\s*(?=\{)")
_AFTER: Final = re.compile(r"(?:\s|[\]}]|\{\}|null|```|</?\|?[\w:.-]+\|?>)*")
"""With ``_BEFORE``: the fences, tags, brackets and empty objects that arguments come with."""
_LENIENT: Final = json.JSONDecoder(strict=False)
"""Accepts line ends in a string."""
NO_REASON: Final = "the provider ended its answer without a finish_reason; it was taken as whole"


class CallFragment(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a tool call. ``index`` is None and ``id`` empty if the provider sent none.

    ``arguments`` are a piece of their text, or JSON, of which an object is complete. ``extra`` holds the other fields
    of the call that must be sent back with it.
    """

    index: int | None = None
    id: str = ""
    name: str = ""
    arguments: object = ""
    extra: Mapping[str, Any] | None = None


class _OpenCall(msgspec.Struct, kw_only=True):
    """A tool call whose pieces are still coming."""

    index: int | None
    id: str
    name: str = ""
    arguments: list[str] = msgspec.field(default_factory=list[str])
    extra: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])

    @property
    def text(self) -> str:
        return "".join(self.arguments)


class _Halves(IncrementalDecoder):
    """Joins the two halves of a character that came in two pieces, see ``http.decoded``."""

    def take(self, text: str, *, final: bool = False) -> str:
        """Return the text so far; half a character at its end waits for its other half unless this is ``final``.

        A half without another one becomes U+FFFD.
        """
        halves = _HALF.sub(lambda half: chr(ord(half[0]) - HALF_BASE), text)
        return self.decode(halves.encode("utf-16-le", "surrogatepass"), final)


def _with_whole_characters(text: str) -> str:
    """Return a text with each pair of halves joined to one character, and each single half replaced by U+FFFD."""
    return _Halves("replace").take(text, final=True)


class AnswerBuilder:
    """Collects the pieces of an answer, passes them to the observer as they come, and builds the completion at the end.

    With a ``reasoning_tag``, text that begins with this tag is reasoning until the tag closes. ``is_done`` is set once
    the provider has sent everything, and ``oddity`` to a sentence on what was odd about the delivery.
    """

    def __init__(self, observer: ModelObserver, reasoning_tag: str = "") -> None:
        self._observer = observer
        self._tagged = TaggedReasoning(reasoning_tag) if reasoning_tag else None
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[_OpenCall] = []
        self._thoughts: list[Thought] = []
        self._records: list[dict[str, Any]] = []
        self._extra: dict[str, Any] = {}
        self._finish = ""
        self.is_done = False
        self._usage: Usage | None = None
        self._cost: float | None = None
        self.oddity = ""
        self._text_halves, self._reasoning_halves = _Halves("replace"), _Halves("replace")

    @property
    def finished(self) -> bool:
        """True once the provider has said why it stopped, or that it has sent everything."""
        return bool(self._finish) or self.is_done

    @property
    def finished_well(self) -> bool:
        """True once the provider has said why it stopped, for a reason other than a failure."""
        return bool(self._finish) and self._finish.lower() not in FAILURE_REASONS

    @property
    def says_anything(self) -> bool:
        """True once there was a piece of text, of reasoning or of a call."""
        return bool(self._text or self._reasoning or self._calls)

    def add_text(self, text: str) -> None:
        """Add a piece of the answer's text."""
        text = self._text_halves.take(text)
        if self._tagged is not None:
            thought, text = self._tagged.take(text)
            self.add_reasoning(thought)
        self._emit_text(text)

    def _emit_text(self, text: str) -> None:
        if text:
            self._text.append(text)
            self._observer.delta(Delta(text=text))

    def add_reasoning(self, text: str) -> None:
        """Add a piece of the reasoning."""
        text = self._reasoning_halves.take(text)
        if text:
            self._reasoning.append(text)
            self._observer.delta(Delta(reasoning=text))

    def add_thought(self, thought: Thought) -> None:
        """Add a complete thought that must be sent back; ``add_reasoning`` has already shown its text."""
        text, characters = _with_whole_characters(thought.text), sum(map(len, self._text))
        place = msgspec.structs.replace(thought, text=text, after_characters=characters, after_calls=len(self._calls))
        self._thoughts.append(place)

    def add_extra(self, extra: Mapping[str, Any]) -> None:
        """Add fields beside the text that must be sent back with it."""
        self._extra |= extra

    def add_record(self, record: Mapping[str, Any]) -> None:
        """Add a piece of a record that must be sent back unchanged; a piece that continues the last one is joined."""
        if not (self._records and _continues_record(self._records[-1], record)):
            self._records.append(dict(record))
            return
        last = self._records[-1]
        for name, value in record.items():
            before = last.get(name)
            if name in _RECORD_TEXTS and isinstance(before, str) and isinstance(value, str):
                last[name] = before + value
            elif value is not None:
                last[name] = value

    def add_call(self, fragment: CallFragment) -> None:
        """Add a piece of a tool call to the call that its id, else its index, else its order says."""
        identity = "" if fragment.id in _NOTHING else fragment.id
        text = text_of(fragment.arguments)
        call = self._find_call(fragment, identity, text)
        if call is None:
            call = _OpenCall(index=fragment.index, id=identity)
            self._calls.append(call)
        elif identity and fragment.name and call.text == text and is_json_object(text):
            return  # the complete call was sent again
        call.id = call.id or identity
        call.extra |= fragment.extra or {}
        call.name = _longer_name(call, fragment.name)
        begins_anew = call.text.strip() == EMPTY and text.lstrip().startswith("{")
        if isinstance(fragment.arguments, dict) or begins_anew:
            call.arguments = [text]
        elif text:
            call.arguments.append(text)
        if call.name:
            piece = CallDelta(index=self._calls.index(call), name=call.name, arguments=text, id=call.id)
            self._observer.delta(Delta(call=piece))

    def _find_call(self, fragment: CallFragment, identity: str, text: str) -> _OpenCall | None:
        """Return the open call that a fragment belongs to, or None if it starts another one."""
        index, name = fragment.index, fragment.name
        if identity:
            placed = [call for call in self._calls if index is None or call.index in {None, index}]
            known = [call for call in placed if call.id == identity]
            if known:
                return None if name and _is_another(known[-1], text) else known[-1]
        candidates = [call for call in self._calls if index is None or call.index == index]
        if not candidates:
            # Arguments with a new index but without a name belong to the previous call.
            return self._calls[-1] if self._calls and not (name or identity) else None
        last = candidates[-1]
        if identity and last.id:
            return last if _continues_call(last, fragment, text) else None
        # A name after complete arguments starts the next call of a provider that sends no ids.
        if name and last.name and is_json_object(last.text):
            return None
        # So does another name, unless it is the rest of the first, which comes alone and with the same index.
        if name and last.name and name != last.name and (index is None or text.strip()) and not last.text:
            return None
        return last

    def count(self, usage: Usage, cost: float | None = None) -> None:
        """Set the provider's own usage and cost. The last ones count; a usage of zero tokens is ignored."""
        if usage.total_tokens:
            self._usage = usage
        self._cost = self._cost if cost is None else cost

    def finish(self, reason: str) -> None:
        """Set why the provider stopped, in its own word. A harmless reason does not replace a cut or a failure."""
        if self._finish.lower() not in _BAD_REASONS or _filters(reason) or reason.lower() in FAILURE_REASONS:
            self._finish = reason

    def build(self, request: ModelRequest, errors: ErrorMapper) -> Completion:
        """Return the complete answer.

        Raises:
            ModelProtocolError: the provider never said why it stopped, said that it failed, or lost a call.
            ModelRefusalError: the provider's content filter stopped the answer.
        """
        self.add_text(self._text_halves.take("", final=True))
        self.add_reasoning(self._reasoning_halves.take("", final=True))
        if self._tagged is not None:
            thought, text = self._tagged.rest()
            self.add_reasoning(thought)
            self._emit_text(text)
            if not self._reasoning:
                thought, rest = self._tagged.split_whole("".join(self._text))
                self._reasoning, self._text = [thought], [rest]
        if not (self._finish or self._is_whole()):
            raise errors.protocol("ended its answer without a finish_reason")
        if self._finish.lower() in FAILURE_REASONS:
            raise errors.protocol(f"ended its answer with finish_reason {self._finish!r}")
        if _filters(self._finish):
            raise errors.refusal("stopped the answer with its content filter")
        source = source_of(request)
        kept = [msgspec.structs.replace(one, source=source) for one in self._thoughts]
        kept += [Thought(source=source, record=msgspec.json.encode(one).decode()) for one in self._records]
        kept += [
            Thought(source=source, extra=msgspec.json.encode(extra).decode(), after_calls=number)
            for number, extra in enumerate([self._extra, *(call.extra for call in self._calls if call.name)])
            if extra
        ]
        message = AssistantMessage(
            content="".join(self._text),
            reasoning="".join(self._reasoning),
            tool_calls=tuple(self._tool_calls(request, is_cut=self._finish.lower() in _LENGTH_REASONS)),
            thoughts=tuple(kept),
        )
        if self._finish.lower() in _CALL_REASONS and not message.tool_calls:
            raise errors.protocol(f"ended its answer with finish_reason {self._finish!r} and sent no call of a tool")
        return Completion(
            message=message,
            finish_reason=finish_reason(self._finish, has_calls=bool(message.tool_calls)),
            usage=estimate_usage(request, message) if self._usage is None else self._usage,
            cost_usd=self._cost,
            oddity=self.oddity or ("" if self._finish else NO_REASON),
        )

    def _tool_calls(self, request: ModelRequest, *, is_cut: bool) -> Iterator[ToolCall]:
        """Yield the calls with unique ids, leaving out a call without name and arguments."""
        schemas = {tool.name: tool.parameters for tool in request.tools}
        taken: set[str] = set()
        for call in self._calls:
            text = call.text
            if not call.name and text.strip() in _NOTHING | {EMPTY}:
                continue
            text = _with_whole_characters(text)
            if not (is_cut and call is self._calls[-1]):
                text = EMPTY if text.strip() in _NOTHING else _unwrapped(text, call.arguments)
            identity = uuid4().hex[:9] if not call.id or call.id in taken else call.id
            taken.add(identity)
            name = _meant(call.name, schemas)
            yield ToolCall(identity, name, _declared(text, schemas.get(name)))

    def _is_whole(self) -> bool:
        """Return whether an answer without a stop reason is complete.

        It is if the stream ended properly, the answer says something, and every call has complete arguments.
        """
        says_something = any(text.strip() for text in self._text) or bool(self._calls)
        return self.is_done and says_something and all(call.name and is_json_object(call.text) for call in self._calls)


def _is_another(call: _OpenCall, text: str) -> bool:
    """Return whether complete arguments belong to another call although they come with this call's id."""
    whole = is_json_object(call.text) and is_json_object(text)
    return whole and call.text != text and call.text.strip() != EMPTY


def _continues_call(call: _OpenCall, fragment: CallFragment, text: str) -> bool:
    """Return whether a fragment with another id belongs to this call: some servers make up an id for each fragment."""
    if not fragment.name:
        return True
    torn = bool(call.text.strip()) and not is_json_object(call.text)
    return torn and fragment.index is not None and text.strip() != "" and not text.lstrip().startswith("{")


def _longer_name(call: _OpenCall, name: str) -> str:
    """Return a call's name after another piece of it, which may be empty, the whole name again, or the rest of it."""
    if not call.name or not name or name == call.name or call.text:
        return call.name or name
    return name if name.startswith(call.name) else call.name + name


_RECORD_TEXTS: Final = frozenset({"text", "summary"})


def _continues_record(record: Mapping[str, Any], piece: Mapping[str, Any]) -> bool:
    """Return whether ``piece`` continues ``record``: it has the same type and index, and a signature ends a record."""
    if not _RECORD_TEXTS & set(record) and not record.get("signature"):
        return False
    same = all(record.get(name) == piece.get(name) for name in ("type", "index"))
    named = {record.get("id"), piece.get("id")} - {None}
    return same and len(named) < 2 and not (record.get("signature") and piece.get("text")) and "data" not in piece


def _filters(reason: str) -> bool:
    return reason.lower().partition(":")[0].strip() in _FILTER_REASONS


def source_of(request: ModelRequest) -> str:
    """Return the provider and model of a request as a ``Thought`` records them."""
    return f"{request.model.provider}/{request.model.name}"


def finish_reason(reason: str, *, has_calls: bool) -> FinishReason:
    """Return our finish reason for a provider's word; some say ``stop`` although they call tools."""
    if reason.lower() in _LENGTH_REASONS or (reason == PAUSE and not has_calls):
        return FinishReason.LENGTH
    return FinishReason.TOOL_CALLS if has_calls else FinishReason.STOP


def estimate_usage(request: ModelRequest, message: AssistantMessage) -> Usage:
    """Estimate the usage of a call for which the provider sent none."""
    return Usage(prompt_tokens=estimate_prompt(request), completion_tokens=estimate_answer(message), calls=1)


def read_usage(fields: Mapping[str, Any]) -> Usage:
    """Return the usage of one call from a provider's table. Providers put cached tokens in different places.

    Thinking is part of the completion. If the total shows that a provider counts it separately, it is added, even if
    nothing but the total mentions it.
    """
    details, thinking = table_of(fields.get("prompt_tokens_details")), table_of(fields.get("completion_tokens_details"))
    places = ("prompt_cache_hit_tokens", "num_cached_tokens", "cached_tokens", "cache_read_input_tokens")
    prompt = _count(fields.get("prompt_tokens", fields.get("input_tokens")))
    completion = _count(fields.get("completion_tokens", fields.get("output_tokens")))
    beside = _count(fields.get("total_tokens")) - prompt - completion
    if beside > 0 and _count(thinking.get("reasoning_tokens")) in {0, beside}:
        completion += beside
    cached = min(prompt, max(_count(place) for place in (details.get("cached_tokens"), *map(fields.get, places))))
    written = _count(details.get("cache_write_tokens") or fields.get("cache_creation_input_tokens"))
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        cached_tokens=cached,
        calls=1,
        cache_written_tokens=min(written, prompt - cached),
    )


def read_cost(fields: Mapping[str, Any]) -> float | None:
    """Return the cost in USD that a provider's usage table reports, or None if it reports none.

    For OpenRouter with the user's own key (``is_byok``), the upstream provider's charge is added.
    """
    reported = fields.get("cost", fields.get("estimated_cost"))
    cost = _dollars(table_of(fields.get("cost")).get("total_cost") if isinstance(reported, dict) else reported)
    if cost is None or fields.get("is_byok") is not True:
        return cost
    return cost + (_dollars(table_of(fields.get("cost_details")).get("upstream_inference_cost")) or 0.0)


def _dollars(reported: object) -> float | None:
    if isinstance(reported, bool) or not isinstance(reported, int | float):
        return None
    return float(reported) if 0 <= reported <= sys.float_info.max else None


def _meant(name: str, offered: Collection[str]) -> str:
    """Return the offered tool that a name means: a namespace may precede it, and a number or a mark follow it."""
    parts = [part for part in _NOT_IN_NAMES.split(name) if part in offered]
    return parts[0] if len(parts) == 1 else name.strip()


def _unwrapped(arguments: str, pieces: Sequence[str]) -> str:
    """Return arguments without what some models put around the object, and gateways send twice."""
    if is_json_object(arguments):
        return arguments
    before, last = pieces[-2:] if len(pieces) > 1 else ("", "")
    if before.startswith("{") and last.startswith(before) and is_json_object(last):
        return last  # Each piece repeats the ones before.
    inner = arguments
    with suppress(ValueError, RecursionError):
        if inner.lstrip().startswith('"'):
            inner = str(_LENIENT.decode(inner))
        if opening := _BEFORE.match(inner):
            value, end = _LENIENT.raw_decode(inner, opening.end())
            found = inner[opening.end() : end]
            if _AFTER.fullmatch(inner[end:].replace(found, "")):
                return found if is_json_object(found) else json.dumps(value)
    return arguments


def _declared(arguments: str, schema: Mapping[str, Any] | None) -> str:
    """Return the arguments under the tool's own names; the text stays as it came if nothing changes."""
    if schema is None or not is_json_object(arguments):
        return arguments
    with suppress(ValueError, RecursionError):  # A number of thousands of digits, or deep lists: the tool refuses them.
        given = json.loads(arguments)
        declared = json.dumps(as_declared(given, schema), ensure_ascii=False)
        if declared != json.dumps(given, ensure_ascii=False):
            return declared
    return arguments


def text_of(value: object) -> str:
    """Return a JSON value as text: a string unchanged, null as an empty string."""
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()


def is_json_object(text: str) -> bool:
    """Return whether ``text`` is one complete JSON object."""
    with suppress(*INVALID_JSON):
        msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        return True
    return False


def _count(value: object) -> int:
    return max(0, whole_number(value) or 0)
