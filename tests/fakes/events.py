"""One example of every event class, made from its fields' types."""

from __future__ import annotations

import inspect
from typing import Any, get_args

import msgspec
from msgspec import Raw

from ipc import events
from ipc.events import BaseEvent, Event, StepOutline

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
    """Every class of the union."""
    return get_args(Event)


def defined_event_classes() -> set[type[BaseEvent]]:
    """Every event class that ipc.events defines."""
    return {
        value
        for value in vars(events).values()
        if inspect.isclass(value) and issubclass(value, BaseEvent) and value is not BaseEvent
    }


def example(kind: type[BaseEvent], seq: int = 1) -> Event:
    """An event of a class, every field filled in."""
    fields: dict[str, Any] = {
        field.name: _value(field.type) for field in msgspec.structs.fields(kind) if field.name not in HEADER
    }
    values: dict[str, Any] = HEADER | fields | {"seq": seq}
    return kind(**values)  # pyright: ignore[reportReturnType]  any class of the union


def examples() -> list[Event]:
    """One of each class, numbered 1, 2, 3 ..."""
    return [example(kind, seq) for seq, kind in enumerate(event_classes(), 1)]


def _value(annotation: Any) -> Any:
    values = {
        str: "text\n\x1b[31m\u202eé\U0001f600",
        int: 3,
        float: 1.5,
        bool: True,
        StepOutline: _outline(),
        Raw: Raw(b'{"outcome":"completed"}'),
    }
    if annotation in values:
        return values[annotation]
    arguments = get_args(annotation)
    if type(None) in arguments:
        return _value(next(argument for argument in arguments if argument is not type(None)))
    if annotation.__origin__ is dict:
        return {"key": 1 if arguments[1] is int else ["any", {"depth": None}]}
    return (_value(arguments[0]),)


def _outline() -> StepOutline:
    return StepOutline(id="step-1", title="First", mode="edit", depends_on=("step-0",))
