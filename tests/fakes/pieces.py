"""The pieces of a view, by the key of each: what a test compares two views by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import msgspec

from vibe.view.agent_view import AgentView, Key, RequestView
from vibe.view.plan_view import PlanView, StepView
from vibe.view.view import View

INTERNAL = frozenset({"key", "state", "transcript", "size", "ref", "aliases", "kept", "noticed", "team"})
SAID: dict[type, tuple[str, ...]] = {
    PlanView: ("status", "reason", "outcome", "total", "done", "tokens"),
    StepView: ("title", "depends_on", "status", "attempt", "reason", "reused", "summary", "is_asking", "doing"),
    AgentView: ("doing", "first", "older"),
    RequestView: ("words",),
}
"""What a part says of itself besides its fields."""
INSIDE: dict[type, tuple[str, ...]] = {
    View: ("runs", "plans", "agents", "requests"),
    PlanView: ("steps",),
    AgentView: ("entries",),
}
"""Parts with keys of their own."""


def pieces(view: View) -> dict[Key, Any]:
    """Every part of a view by its key, without those in it that have keys of their own."""
    own = {(name,): _plain(getattr(view, name)) for name in view.__struct_fields__ if name not in INTERNAL}
    found = dict(_parts(view))
    return {**{key: value for key, value in own.items() if key[0] not in INSIDE[View]}, **found}


def piece(view: View, key: Key) -> Any:
    """The part that a key leads to; None: it is gone."""
    part: Any = view
    for name in key:
        part = cast("dict[str, Any]", part).get(name) if isinstance(part, dict) else getattr(part, name, None)
    return _said(part) if hasattr(part, "key") else _plain(part)


def _parts(part: Any) -> Iterator[tuple[Key, Any]]:
    for name in INSIDE.get(part.__class__, ()):
        for each in getattr(part, name).values():
            yield each.key, _said(each)
            yield from _parts(each)


def _said(part: Any) -> dict[str, Any]:
    kind: type = part.__class__
    names = {*part.__struct_fields__, *SAID.get(kind, ())} - INTERNAL - {*INSIDE.get(kind, ())}
    return {name: _plain(getattr(part, name)) for name in sorted(names)}


def _plain(value: Any) -> Any:
    if hasattr(value, "key"):
        return value.key
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in cast("dict[str, Any]", value).items()}
    return msgspec.to_builtins(value() if callable(value) else value, str_keys=True)
