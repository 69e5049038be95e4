"""Reads sessions of Mistral Vibe 2.x: other names in ``meta.json``, the wire's form of tool calls."""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast

import msgspec

from ipc.errors import INVALID_JSON
from vibe.core.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage

ORIGIN = "mistral-vibe"
"""The ``origin`` of such a session; it is never written to."""


def is_foreign_meta(document: dict[str, Any]) -> bool:
    """Return whether Mistral Vibe wrote it: it gives no version and says where it ran in ``environment``."""
    return "version" not in document and isinstance(document.get("environment"), dict)


def our_meta(document: dict[str, Any]) -> dict[str, Any]:
    """The same in our words; what is not known is left out."""
    stats, config = _table(document.get("stats")), _table(document.get("config"))
    return {
        "version": 1,
        "origin": ORIGIN,
        "session_id": document.get("session_id"),
        "workspace": _text(_table(document.get("environment")).get("working_directory")),
        "model": _text(config.get("active_model")),
        "agent": _text(_table(document.get("agent_profile")).get("name")) or "default",
        "title": _text(document.get("title")),
        "started": _seconds(document.get("start_time")) or 0.0,
        "ended": _seconds(document.get("end_time")),
        "outcome": "completed" if document.get("end_time") else None,
        "usage": {
            "prompt_tokens": stats.get("session_prompt_tokens", 0),
            "completion_tokens": stats.get("session_completion_tokens", 0),
            "calls": stats.get("steps", 0),
        },
        "cost_usd": None,
        "git_commit": document.get("git_commit"),
        "git_branch": document.get("git_branch"),
    }


def our_message(line: bytes) -> Message | None:
    """The message in a line of its ``messages.jsonl``; None: it is another program's, or a later version's of ours."""
    try:
        document = msgspec.json.decode(line, type=dict[str, Any])
    except INVALID_JSON:
        return None
    if "injected" not in document and "message_id" not in document:
        return None
    content = _text(document.get("content"))
    match document.get("role"):
        case "user":
            return UserMessage(content)
        case "assistant":
            calls = tuple(_call(call) for call in cast("list[Any]", document.get("tool_calls") or []))
            return AssistantMessage(content, tool_calls=calls, reasoning=_text(document.get("reasoning_content")))
        case "tool":
            return ToolMessage(content, _text(document.get("tool_call_id")), _text(document.get("name")))
        case _:
            return None


def _call(call: Any) -> ToolCall:
    function = _table(_table(call).get("function"))
    return ToolCall(_text(_table(call).get("id")), _text(function.get("name")), _text(function.get("arguments")))


def _seconds(value: Any) -> float | None:
    try:
        return datetime.fromisoformat(value).timestamp()
    except (TypeError, ValueError):
        return None


def _table(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
