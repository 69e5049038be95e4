"""HookRunner: runs the hooks of one agent at the right moments, and says what came of them.

The verdict of a hook that has run is read from its exit code and output.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ipc.events import WarningEvent
from ipc.sink import EventSink
from vibe.core.hooks.models import Hook, HookAnswer, HookCall, HookEvent
from vibe.core.schemas import table_of
from vibe.shell.errors import CommandStartError
from vibe.shell.process.port import CommandResult
from vibe.system.plain_text import beginning

BLOCKING_EXIT = 2
MAX_TEXT = 4_000
"""Characters of a hook's words that reach the model."""

_BLOCKING = frozenset({"block", "deny", "denied", "reject"})
_PASSING = frozenset({"", "allow", "approve", "continue", "ask"})


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


def read_verdict(run: CommandResult) -> HookVerdict:
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
    return table_of(said.get("hookSpecificOutput")) | table_of(said.get("hook_specific_output"))


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
    return table_of(value)


def _reason(said: dict[str, Any]) -> str:
    specific = _specific(said)
    found = (said.get("reason"), specific.get("permissionDecisionReason"), said.get("stopReason"))
    return next((word for value in found if (word := _word_kept(value))), "")


def _word(value: Any) -> str:
    return value.strip().casefold() if isinstance(value, str) else ""


def _word_kept(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _because(run: CommandResult) -> str:
    line = next(iter(reversed(run.stderr.strip().splitlines())), "")
    return f" ({line[:200]})" if line else ""


MAX_RESULT = 64_000
"""Characters of a tool's result that a hook is handed."""

FOREIGN_EVENTS = {
    HookEvent.BEFORE_TOOL: "PreToolUse",
    HookEvent.AFTER_TOOL: "PostToolUse",
    HookEvent.POST_AGENT_TURN: "Stop",
}
"""Names in ``hook_event_name`` for scripts that were written for other tools."""


class HookCommands(Protocol):
    """Runs shell commands with text on their standard input."""

    async def run(self, hook: Hook, payload: str) -> CommandResult:
        """Run to the end or the hook's timeout, then see that nothing it started is left.

        Raises:
            CommandStartError: the system refuses it.
        """
        ...


class HookRunner:
    """The hooks of one agent. ``about`` is what every hook is told besides its event: session, cwd, subagent.

    A ``before_tool`` hook that fails denies the call unless it is not ``strict``; failures of the others are warnings.
    """

    def __init__(
        self, hooks: Sequence[Hook], commands: HookCommands, sink: EventSink, about: Mapping[str, Any]
    ) -> None:
        self._hooks = tuple(hooks)
        self._commands = commands
        self._sink = sink
        self._about = dict(about)

    async def before_tool(self, call: HookCall) -> HookAnswer:
        """Return the outcome of the hooks before a call; the first that refuses ends it, each sees earlier changes."""
        changed: list[str] = []
        for hook in self._of(HookEvent.BEFORE_TOOL, call.tool):
            try:
                verdict = await self._verdict(hook, self._payload(hook, call))
            except HookBrokenError as error:
                problem = f"the hook {hook.name!r} {error}, so its check did not run"
                self._warn(problem)
                if not hook.strict:
                    continue
                return HookAnswer(call=call, objection=problem)
            if verdict.blocked:
                why = f": {verdict.reason}" if verdict.reason else ""
                return HookAnswer(call=call, objection=f"denied by hook {hook.name!r}{why}")
            if verdict.arguments is not None and verdict.arguments != call.arguments:
                call = replace(call, arguments=verdict.arguments)
                changed.append(repr(hook.name))
        return HookAnswer(call=call, changed=" and ".join(changed))

    async def after_tool(self, call: HookCall, *, status: str, result: str) -> tuple[str, ...]:
        """Return what hooks want the model to know of a call that was run."""
        extra = {"status": status, "result": result[:MAX_RESULT], "tool_response": result[:MAX_RESULT]}
        notices: list[str] = []
        for hook in self._of(HookEvent.AFTER_TOOL, call.tool):
            verdict = await self._unless_broken(hook, self._payload(hook, call) | extra)
            text = "\n".join(filter(None, (verdict.reason, verdict.message)))
            if text:
                notices.append(f"the hook {hook.name!r} says about {call.tool}: {text}")
        return tuple(notices)

    async def post_agent_turn(self, answer: str, *, again: int) -> str | None:
        """Return what hooks tell an agent that believes it is done; ``again`` counts how often they did before."""
        extra = {"result": answer[:MAX_RESULT], "stop_hook_active": again > 0, "again": again}
        notices: list[str] = []
        for hook in self._of(HookEvent.POST_AGENT_TURN):
            verdict = await self._unless_broken(hook, self._payload(hook) | extra)
            text = (verdict.reason or "it is not done") if verdict.blocked else verdict.message
            if text:
                notices.append(f"the hook {hook.name!r} says: {text}")
        return "\n\n".join(notices) or None

    def _of(self, event: HookEvent, tool: str | None = None) -> list[Hook]:
        return [hook for hook in self._hooks if hook.event is event and (tool is None or hook.is_about(tool))]

    def _payload(self, hook: Hook, call: HookCall | None = None) -> dict[str, Any]:
        payload = {"event": hook.event.value, "hook_event_name": FOREIGN_EVENTS[hook.event], **self._about}
        if call is not None:
            payload |= {
                "tool": call.tool,
                "tool_name": call.tool,
                "tool_call_id": call.tool_call_id,
                "arguments": call.arguments,
                "tool_input": call.arguments,
            }
        return payload

    async def _unless_broken(self, hook: Hook, payload: Mapping[str, Any]) -> HookVerdict:
        try:
            return await self._verdict(hook, payload)
        except HookBrokenError as error:
            self._warn(f"the hook {hook.name!r} {error}")
            return HookVerdict()

    async def _verdict(self, hook: Hook, payload: Mapping[str, Any]) -> HookVerdict:
        """Run a hook, again where it could not be started or ran out of time.

        Raises:
            HookBrokenError: it did not work.
        """
        text = json.dumps(payload, ensure_ascii=False, default=str)
        problem = ""
        for _ in range(hook.retries + 1):
            try:
                run = await self._commands.run(hook, text)
            except CommandStartError as error:
                problem = f"could not be started ({error.problem})"
                continue
            if not run.timed_out:
                return read_verdict(run)
            problem = f"ran longer than {hook.timeout_seconds:g} s"
        tries = f", {hook.retries + 1} times" if hook.retries else ""
        raise HookBrokenError(problem + tries)

    def _warn(self, problem: str) -> None:
        self._sink.publish(WarningEvent(code="hook", message=problem))
