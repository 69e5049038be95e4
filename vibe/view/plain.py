"""The view as plain data, all of it or a part by its key, to be sent on as JSON."""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from vibe.view.agent_view import AgentView, CallView, EntryView, Key, RequestView
from vibe.view.plan_view import PlanView, StepView
from vibe.view.view import RunView, View

_LEFT_OUT: Final = frozenset({
    *("key", "state", "transcript", "size", "ref", "aliases", "kept", "noticed", "team", "proofs", "stuck"),
})
_SAID: Final[dict[type, tuple[str, ...]]] = {
    PlanView: ("id", "status", "reason", "outcome", "counts", "total", "done", "tokens"),
    StepView: (
        *("id", "title", "mode", "depends_on", "status", "attempt", "reason", "reused", "merges", "summary"),
        *("is_asking", "doing", "order", "workspace", "tolerated", "attempts", "reused_from", "stopping"),
    ),
    AgentView: ("doing", "first", "older"),
    RequestView: ("words",),
}
"""Words of a part on itself besides its fields."""
_INSIDE: Final[dict[type, tuple[str, ...]]] = {
    View: ("runs", "plans", "agents", "requests"),
    PlanView: ("steps",),
    AgentView: ("entries",),
}
"""Containers of parts with keys of their own."""
_NAMES: Final = frozenset({
    *("agents", "failed", "files", "open_calls", "plan_ids", "replanning", "requests", "running"),
})
"""Fields of which only the names are said: what they stand for is somewhere else, or nothing."""
_PARTS: Final = (View, RunView, PlanView, StepView, AgentView, RequestView, EntryView, CallView)


def plain(view: View) -> dict[str, Any]:
    """All of a view, as JSON can have it."""
    return _part(view, deep=True)


def look(view: View, key: Key) -> Any:
    """The part of a view that a key names, as JSON can have it; None if it is gone.

    It comes without what has keys of its own: a plan without its steps, an agent without its entries.
    """
    part: Any = view
    for name in key:
        part = cast("dict[str, Any]", part).get(name) if isinstance(part, dict) else getattr(part, name, None)
    return _data(part)


def _data(value: Any, *, deep: bool = False) -> Any:
    if isinstance(value, _PARTS):
        return _part(value, deep=deep)
    if isinstance(value, dict):
        return {str(name): _data(each, deep=deep) for name, each in cast("dict[Any, Any]", value).items()}
    return msgspec.to_builtins(value, str_keys=True)


def _part(part: Struct, *, deep: bool) -> dict[str, Any]:
    inside = _INSIDE.get(type(part), ())
    names = (name for name in (*part.__struct_fields__, *_SAID.get(type(part), ())) if name not in _LEFT_OUT)
    said = {name: _field(part, name) for name in names if name not in inside}
    if deep:
        said |= {name: _data(getattr(part, name), deep=True) for name in inside}
    return said


def _field(part: Struct, name: str) -> Any:
    value = getattr(part, name)
    if name in _NAMES and isinstance(value, dict):
        return list(cast("dict[str, Any]", value))
    if isinstance(value, AgentView | EntryView):
        return value.key[-1]
    return msgspec.to_builtins(value() if callable(value) else value, str_keys=True)
