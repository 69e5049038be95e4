"""Verdict of a hook that has run, read from its exit code and output. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, cast

from vibe.core.plain_text import beginning

BLOCKING_EXIT = 2
MAX_TEXT = 4_000
"""Characters of a hook's words that reach the model."""

_BLOCKING = frozenset({"block", "deny", "denied", "reject"})
_PASSING = frozenset({"", "allow", "approve", "continue", "ask"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRun:
    """A run of a hook's command."""

    exit_code: int
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HookVerdict:
    """``blocked`` with a reason, and what it wants the model to know; either text may be empty.

    ``arguments`` are those the call is to be made with instead; None: its own.
    """

    blocked: bool = False
    reason: str = ""
    message: str = ""
    arguments: dict[str, Any] | None = None


class HookBrokenError(Exception):
    """A hook did not say anything that can be understood; the text is a phrase."""


def read_verdict(run: HookRun) -> HookVerdict:
    """The verdict: exit 2 or ``{"decision": "deny"|"block", "reason": ...}`` blocks, exit 0 passes.

    Output that is not a JSON object is a hook's own business. Nothing a hook says allows what is not allowed.

    Raises:
        HookBrokenError: another exit code, or JSON that is torn or unknown.
    """
    if run.exit_code == BLOCKING_EXIT:
        said = _document(run.stdout) if run.stdout.lstrip().startswith("{") else {}
        return HookVerdict(
            blocked=True, reason=beginning(_reason(said) or run.stderr.strip() or run.stdout.strip(), MAX_TEXT)
        )
    if run.exit_code != 0:
        raise HookBrokenError(f"exited with {run.exit_code}{_because(run)}")
    if not run.stdout.lstrip().startswith("{"):
        return HookVerdict()
    said = _document(run.stdout)
    specific = _specific(said)
    decision = _word(specific.get("permissionDecision")) or _word(said.get("decision"))
    if decision not in _BLOCKING | _PASSING:
        raise HookBrokenError(f"answered with the unknown decision {decision!r}")
    told = (said.get("message"), specific.get("additionalContext"), specific.get("additional_context"))
    message = next((word for value in told if (word := _word_kept(value))), "")
    stopped = said.get("continue") is False
    return HookVerdict(
        blocked=decision in _BLOCKING or stopped,
        reason=beginning(_reason(said), MAX_TEXT),
        message=beginning(message, MAX_TEXT),
        arguments=_arguments(specific),
    )


def _specific(said: dict[str, Any]) -> dict[str, Any]:
    """Return what is about the one event, in the spelling of either tool."""
    return _table(said.get("hookSpecificOutput")) | _table(said.get("hook_specific_output"))


def _arguments(specific: dict[str, Any]) -> dict[str, Any] | None:
    for name in ("tool_input", "updatedInput"):  # Mistral Vibe's word, and Claude Code's
        if name in specific:
            if not isinstance(specific[name], dict):
                raise HookBrokenError(f"answered with a {name} that is not a JSON object")
            return specific[name]
    return None


def _document(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise HookBrokenError(f"answered with invalid JSON ({error})") from error
    return _table(value)


def _table(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _reason(said: dict[str, Any]) -> str:
    specific = _specific(said)
    found = (said.get("reason"), specific.get("permissionDecisionReason"), said.get("stopReason"))
    return next((word for value in found if (word := _word_kept(value))), "")


def _word(value: Any) -> str:
    return value.strip().casefold() if isinstance(value, str) else ""


def _word_kept(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _because(run: HookRun) -> str:
    line = next(iter(reversed(run.stderr.strip().splitlines())), "")
    return f" ({line[:200]})" if line else ""
