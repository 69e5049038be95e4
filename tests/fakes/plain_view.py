"""The view as plain data, ready to be sent as JSON: all of it, or one part by its key."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final, cast

from msgspec import Struct, to_builtins

from vibe.view.agent_view import AgentView, CallView, EntryView, Key, RequestView
from vibe.view.plan_view import PlanView, StepView
from vibe.view.view import RunView, View

_LEFT_OUT: Final = frozenset({
    *(
        "key",
        "state",
        "transcript",
        "size",
        "ref",
        "aliases",
        "kept",
        "noticed",
        "team",
        "checks_by_step",
        "same_failures",
    ),
})
_PROPERTIES: Final[dict[type, tuple[str, ...]]] = {
    PlanView: ("id", "status", "reason", "outcome", "counts", "total", "done", "tokens"),
    StepView: (
        *("id", "title", "mode", "depends_on", "status", "attempt", "reason", "reused", "merges", "summary"),
        *("is_asking", "doing", "order", "state.tolerated", "state.attempts", "state.reused_from", "state.stopping"),
    ),
    AgentView: ("doing", "first", "transcript.older"),
    RequestView: ("words",),
}
"""Properties and methods of a part that are included besides its fields."""
_CONTAINERS: Final[dict[type, tuple[str, ...]]] = {
    View: ("runs", "plans", "agents", "requests"),
    PlanView: ("steps",),
    AgentView: ("entries",),
}
"""Fields that hold parts with keys of their own."""
_NAMES_ONLY: Final = frozenset({
    *("agents", "failed", "files", "open_calls", "plan_ids", "replanning", "requests", "running"),
})
"""Fields of which only the names are included. What the names stand for is elsewhere in the view, or nothing."""
_PARTS: Final = (View, RunView, PlanView, StepView, AgentView, RequestView, EntryView, CallView)


def plain(view: View) -> dict[str, Any]:
    """Return all of a view as JSON types."""
    return _part(view, deep=True)


def look(view: View, key: Key) -> Any:
    """Return the part of a view that a key names, as JSON types; None if it is gone.

    Parts inside it that have keys of their own are left out: a plan comes without its steps, an agent without its
    entries.
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
    return to_builtins(value, str_keys=True)


def _part(part: Struct, *, deep: bool) -> dict[str, Any]:
    inside = _CONTAINERS.get(type(part), ())
    names = (name for name in (*part.__struct_fields__, *_PROPERTIES.get(type(part), ())) if name not in _LEFT_OUT)
    document = {name: _field(part, name) for name in names if name not in inside}
    if deep:
        document |= {name: _data(getattr(part, name), deep=True) for name in inside}
    return document


def _field(part: Struct, name: str) -> Any:
    value = attrgetter(name)(part)
    if name in _NAMES_ONLY and isinstance(value, dict):
        return list(cast("dict[str, Any]", value))
    if isinstance(value, AgentView | EntryView):
        return value.key[-1]
    return to_builtins(value() if callable(value) else value, str_keys=True)
