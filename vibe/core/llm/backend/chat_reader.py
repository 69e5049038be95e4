"""Reads the events of chat completions as the servers that call themselves compatible send them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, cast

import msgspec

from vibe.core.llm.backend.assembly import FAILURE_REASONS, AnswerBuilder, CallFragment, read_cost, read_usage
from vibe.core.llm.backend.reader import StreamReader, decoded
from vibe.core.llm.error_table import ErrorMapper
from vibe.core.schemas import table_of, whole_number

EXTRA: Final = "extra_content"
"""The field in which Gemini puts the signature of a thought, beside the call that it led to."""
_NO_REASONS: Final = frozenset({"", "null", "none"})
_THOUGHT_PARTS: Final = frozenset({"thinking", "reasoning"})
_chunk = msgspec.json.Decoder(dict[str, Any])

Table = dict[str, Any]


def chat_reader(errors: ErrorMapper, reasoning_field: str = "") -> StreamReader:
    """Return what reads chat completions, the last of which is told by ``[DONE]`` alone.

    ``reasoning_field`` is where a provider tells thoughts that has a name of its own for them.
    """
    names = (reasoning_field, "reasoning_content", "reasoning", "reasoning_text")
    thoughts = tuple(dict.fromkeys(name for name in names if name))
    return StreamReader(errors, lambda answer: _ChunkTaker(answer, errors, thoughts).take)


class _ChunkTaker:
    """Puts the chunks of one answer together. No field is trusted to be there, or to be of its type."""

    def __init__(self, answer: AnswerBuilder, errors: ErrorMapper, thoughts: tuple[str, ...]) -> None:
        self._answer = answer
        self._errors = errors
        self._thoughts = thoughts
        self._streamed = False

    def take(self, data: str) -> bool:
        chunk = decoded(_chunk, data)
        failure = failure_of(chunk)
        if failure is not None:
            raise self._errors.from_chunk(failure)
        choices = [choice for choice in _tables(chunk.get("choices")) if not whole_number(choice.get("index"))]
        for told in (chunk, table_of(chunk.get("x_groq")), *choices):
            if usage := table_of(told.get("usage")):
                self._answer.count(read_usage(usage), read_cost(usage))
                break
        for choice in choices:
            self._choose(choice)
        return False

    def _choose(self, choice: Table) -> None:
        self._streamed |= self._say(table_of(choice.get("delta")))
        if not self._streamed:  # the whole message behind its pieces would say all of it again
            self._say(table_of(choice.get("message")), is_whole=True)
        if _text(choice.get("native_finish_reason")).lower() in FAILURE_REASONS:
            self._answer.finish(choice["native_finish_reason"])
        reason = _text(choice.get("finish_reason"))
        if reason.lower() not in _NO_REASONS:
            self._answer.finish(reason)

    def _say(self, delta: Table, *, is_whole: bool = False) -> bool:
        """Take what was said, and return whether it was anything."""
        records = list(_tables(delta.get("reasoning_details")))
        for record in records:
            self._answer.add_record(record)
        thoughts = next((text for name in self._thoughts if (text := _text(delta.get(name)))), "")
        thoughts = thoughts or "".join(_text(one.get("text")) or _text(one.get("summary")) for one in records)
        self._answer.add_reasoning(thoughts)
        said = bool(thoughts or records)
        for thought, text in _parts(delta.get("content")):
            self._answer.add_reasoning(thought)
            self._answer.add_text(text)
            said |= bool(thought or text)
        refusal = _text(delta.get("refusal"))
        self._answer.add_text(refusal)
        return self._call(delta, is_whole=is_whole) or said or bool(refusal)

    def _call(self, delta: Table, *, is_whole: bool) -> bool:
        if extra := table_of(delta.get(EXTRA)):
            self._answer.add_extra({EXTRA: extra})
        calls = list(_tables(delta.get("tool_calls")))
        for number, call in enumerate(calls):
            index = whole_number(call.get("index"))
            position = number if is_whole and index is None else index
            extra = {EXTRA: beside} if (beside := table_of(call.get(EXTRA))) else None
            self._answer.add_call(_fragment(table_of(call.get("function")), position, call.get("id"), extra))
        legacy = table_of(delta.get("function_call"))
        if legacy and not calls:
            self._answer.add_call(_fragment(legacy, 0))
        return bool(calls or legacy)


def failure_of(chunk: Table) -> Table | None:
    """Return the failure that a chunk tells of, wherever it tells it, or None."""
    groq = table_of(chunk.get("x_groq"))
    for place in (chunk, *_tables(chunk.get("choices")), groq):
        error: object = place.get("error")
        if isinstance(error, dict):
            fields = table_of(cast("object", error))
            if any(fields.values()):
                return fields
        elif isinstance(error, str) and error.strip():
            return {"message": error, "type": chunk.get("error_type", chunk.get("type")), "code": chunk.get("code")}
        elif error:
            return {name: value for name, value in place.items() if name != "error"} or {"message": "no reason told"}
    says_nothing = not {"choices", "usage"} & set(chunk)
    if chunk.get("object") == "error" or (says_nothing and (_text(chunk.get("message")) or chunk.get("detail"))):
        return chunk
    return None


def _parts(content: object) -> Iterator[tuple[str, str]]:
    """Yield thoughts and text of a content: text, or a list of parts."""
    if isinstance(content, str):
        yield "", content
        return
    for part in cast("list[object]", content) if isinstance(content, list) else [content]:
        if isinstance(part, str):
            yield "", part
        elif fields := table_of(part):
            text, thinking = _text(fields.get("text")), fields.get("thinking")
            inner = "".join(text for _, text in _parts(thinking)) if thinking else ""
            yield (inner or text, "") if fields.get("type") in _THOUGHT_PARTS else (inner, text)


def _fragment(function: Table, index: int | None, identity: object = None, extra: Table | None = None) -> CallFragment:
    name = "" if identity is None else str(identity)
    return CallFragment(
        index=index, id=name, name=_text(function.get("name")), arguments=function.get("arguments"), extra=extra
    )


def _tables(value: object) -> Iterable[Table]:
    if isinstance(value, dict):
        return [cast("Table", value)]
    listed = cast("list[object]", value) if isinstance(value, list) else []
    return [fields for one in listed if (fields := table_of(one))]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
