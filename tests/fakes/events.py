"""Examples of every event class, made from the types of its fields. Run as a module, it prints the golden lines."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any, cast, get_args, get_origin

import msgspec
from msgspec import Raw, Struct, StructMeta

from ipc import events
from ipc.codec import encode_event
from ipc.events import BaseEvent, Display, Event, StepOutline, ToolResultEvent

GOLDEN = Path(__file__).parent.parent / "unit" / "ipc" / "golden" / "events.jsonl"
"""Every event as it is on the wire. Only add fields: changing a line breaks readers."""

HEADER: dict[str, Any] = {
    "event_id": "0123456789abcdef0123456789abcdef",
    "source": "run-1",
    "ts": 1700000000.25,
    "session_id": "session-1",
    "plan_id": "plan-1",
    "subagent_id": "agent-1",
    "subagent_step_id": "step-1",
}


def event_classes() -> tuple[type[BaseEvent], ...]:
    """Return every class of the ``Event`` union."""
    return get_args(Event)


def defined_event_classes() -> set[type[BaseEvent]]:
    """Return every event class that ipc.events defines."""
    return {
        value
        for value in vars(events).values()
        if inspect.isclass(value) and issubclass(value, BaseEvent) and value is not BaseEvent
    }


def example(kind: type[BaseEvent], seq: int = 1) -> Event:
    """Return an event of a class with every field filled in."""
    fields: dict[str, Any] = {
        field.name: _value(field.type) for field in msgspec.structs.fields(kind) if field.name not in HEADER
    }
    values: dict[str, Any] = HEADER | fields | {"seq": seq}
    return kind(**values)  # pyright: ignore[reportReturnType]  any class of the union


def examples() -> list[Event]:
    """Return one event of each class, numbered from 1."""
    return [example(kind, seq) for seq, kind in enumerate(event_classes(), 1)]


def golden() -> list[Event]:
    """Return one event of each class, and then one tool result for each kind of display."""
    one_each = examples()
    shown = example(ToolResultEvent, len(one_each))
    displays = [msgspec.structs.replace(shown, display=_value(kind)) for kind in get_args(Display)]
    return [*one_each, *displays]


def golden_lines() -> bytes:
    """Return the golden events as lines on the wire."""
    return b"".join(encode_event(event) + b"\n" for event in golden())


def _value(annotation: Any) -> Any:
    values: dict[Any, Any] = {
        str: "text\n\x1b[31m\u202eé\U0001f600",
        int: 3,
        float: 1.5,
        bool: True,
        Raw: Raw(b'{"outcome":"completed"}'),
    }
    if annotation in values:
        return values[annotation]
    if annotation is StepOutline:
        return msgspec.structs.replace(_filled(StepOutline), id="step-1", title="First", depends_on=("step-0",))
    if isinstance(annotation, StructMeta):
        return _filled(cast("type[Struct]", annotation))
    arguments = get_args(annotation)
    if type(None) in arguments or annotation == Display:
        return _value(next(argument for argument in arguments if argument is not type(None)))
    if get_origin(annotation) is dict:
        return {"key": ["any", {"depth": None}] if arguments[1] is Any else _value(arguments[1])}
    if get_origin(annotation) is list:
        return [_value(arguments[0])]
    return (_value(arguments[0]),)


def _filled(kind: type[Struct]) -> Any:
    return kind(**{field.name: _value(field.type) for field in msgspec.structs.fields(kind)})


if __name__ == "__main__":
    sys.stdout.buffer.write(golden_lines())
