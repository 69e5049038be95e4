"""HookRunner: runs an agent's hooks. Also reads them from ``hooks.toml``: an event, a matcher of tools, a command.

A wrong file is an error, since a guard that is silently missing guards nothing. The verdict of a hook is read from its
exit code and its output.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Protocol, cast

from msgspec import Struct, field, structs
from pydantic import Field, ValidationError

from ipc.events import WarningEvent
from ipc.sink import EventSink
from vibe.core.config.layers import wording
from vibe.core.config.models import Section
from vibe.core.config.patterns import REGEX_PREFIX, NamePatterns, our_tool_name
from vibe.core.config.toml_source import RawPath, TomlSource, read_toml
from vibe.core.schemas import table_of
from vibe.shell.errors import CommandStartError
from vibe.shell.process.port import CommandResult
from vibe.system.errors import ConfigError, error_as
from vibe.system.plain_text import beginning

DEFAULT_TIMEOUT_SECONDS = 30.0
MAX_TIMEOUT_SECONDS = 600.0
DEFAULT_RETRIES = 3
"""The number of retries of a hook that could not be started or ran out of time."""


class HookEvent(StrEnum):
    """The moment at which a hook runs."""

    BEFORE_TOOL = "before_tool"
    AFTER_TOOL = "after_tool"
    POST_AGENT_TURN = "post_agent_turn"


_SPELLINGS = MappingProxyType({
    HookEvent.BEFORE_TOOL: re.compile("beforetool(call)?|pretool(use)?"),
    HookEvent.AFTER_TOOL: re.compile("aftertool(call)?|posttool(use)?"),
    HookEvent.POST_AGENT_TURN: re.compile("afteragent(turn)?|postagentturn|(subagent)?stop"),
})
"""The events' names in coding agents, in lower case without hyphens and underscores."""


def event_named(word: str) -> HookEvent | None:
    """Return the event that a word means in the spelling of any coding agent, or None."""
    name = re.sub(r"[-_ ]", "", word).casefold()
    return next((event for event, spelling in _SPELLINGS.items() if spelling.fullmatch(name)), None)


class Hook(Struct, frozen=True, kw_only=True):
    """One entry of a ``hooks.toml``.

    ``project_dir`` is the folder that contains its ``.vibe``, None for a hook of the user's own. If a hook fails that
    is ``strict``, the call it should check is denied; otherwise the failure is a warning. A hook of a program that
    uses the SDK has a ``call`` in place of a command, which gets the payload and returns the document that a command
    would print.
    """

    name: str
    event: HookEvent
    command: str
    matcher: NamePatterns | None = None
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    retries: int = DEFAULT_RETRIES
    project_dir: Path | None = None
    strict: bool = True
    call: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]] | None = None

    def is_about(self, tool: str) -> bool:
        """Return whether the hook runs for calls of a tool."""
        return self.matcher is None or self.matcher.matches(tool)


def tool_matcher(text: str, *, where: str) -> NamePatterns | None:
    """Parse a matcher such as ``Edit|Write``, ``bash``, ``mcp_*`` or ``re:...``; None stands for every tool.

    Tools may have our names or those of other agents.

    Raises:
        ConfigError: a regular expression is not valid.
    """
    if text.strip() in {"", "*", ".*"}:
        return None
    parts = [text] if text.startswith(REGEX_PREFIX) else [part.strip() for part in text.split("|") if part.strip()]
    patterns = [part if part.startswith(REGEX_PREFIX) else our_tool_name(part) for part in parts]
    return NamePatterns(patterns, where=where, key="matcher")


class HookCall(Struct, frozen=True, kw_only=True):
    """A tool call as hooks see it."""

    tool_call_id: str
    tool: str
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])


class HookAnswer(Struct, frozen=True, kw_only=True):
    """The outcome of the hooks before a call: an ``objection`` if it must not run, and the ``call`` to make.

    ``changed`` names the hooks that changed the call, as a phrase; it is empty if none did. ``question`` says why the
    user must be asked first; it is empty if no hook wants that.
    """

    call: HookCall
    objection: str | None = None
    changed: str = ""
    question: str = ""


HOOKS_FILE = "hooks.toml"
MAX_RETRIES = 3


class HookFile(Struct, frozen=True, kw_only=True):
    """A file that may contain hooks, its displayed name, and the project it belongs to (None for the user)."""

    path: Path
    label: str
    project_dir: Path | None = None


def load_hooks(files: Iterable[HookFile]) -> tuple[Hook, ...]:
    """Load the hooks of all files, in order.

    A file lists hooks as ``[[hooks]]`` tables with an ``event``, or as ``[[hooks.before_tool]]`` tables.

    Raises:
        ConfigError: a file is not valid; the error names file, line and key.
    """
    sources = ((read_toml(file.path, file.label), file) for file in files)
    return tuple(hook for source, file in sources if source is not None for hook in _hooks(source, file))


def _hooks(source: TomlSource, file: HookFile) -> Iterator[Hook]:
    """Yield the hooks of one file, in either of its two forms."""
    for key in source.data:
        if key != "hooks":
            raise ConfigError(source.where((key,)), key, "is unknown, write hooks as [[hooks]] tables")
    found = source.data.get("hooks", [])
    if isinstance(found, dict):
        for word, tables in cast("dict[str, Any]", found).items():
            event = _event(source, ("hooks", word), word)
            yield from _entries(source, file, tables, ("hooks", word), event)
    else:
        yield from _entries(source, file, found, ("hooks",), None)


def _entries(source: TomlSource, file: HookFile, tables: Any, path: RawPath, event: HookEvent | None) -> Iterator[Hook]:
    if not isinstance(tables, list):
        raise ConfigError(source.where(path), ".".join(map(str, path)), "must be a list of tables, such as [[hooks]]")
    for index, table in enumerate(cast("list[Any]", tables)):
        yield _hook(source, (*path, index), table, file, event)


class _Entry(Section):
    """One table of a file."""

    name: str = ""
    description: str = ""
    event: str = ""
    type: str = ""
    matcher: str = ""
    match: str = ""
    command: str = ""
    timeout: Annotated[float, Field(gt=0, le=MAX_TIMEOUT_SECONDS)] = DEFAULT_TIMEOUT_SECONDS
    retries: Annotated[int, Field(ge=0, le=MAX_RETRIES)] = DEFAULT_RETRIES
    strict: bool = True


def _hook(source: TomlSource, place: RawPath, table: Any, file: HookFile, event: HookEvent | None) -> Hook:
    def wrong(key: str, problem: str) -> ConfigError:
        return ConfigError(source.where((*place, key)), f"hooks.{key}" if key else f"hooks[{place[-1]}]", problem)

    try:
        entry = _Entry.model_validate(table, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        known = ", ".join(sorted(_Entry.model_fields))
        problem = f"is unknown, a hook has: {known}" if first["type"] == "extra_forbidden" else wording(first)
        raise wrong(str(*first["loc"]), problem) from error
    if event is None:
        event = _event(source, (*place, "event" if entry.event else "type"), entry.event or entry.type)
    command = entry.command.strip()
    if not command or "\0" in command:
        raise wrong("command", "is missing, give the shell command to run")
    if entry.match and entry.matcher:
        raise wrong("match", "means the same as matcher: give one of the two")
    key = "match" if entry.match else "matcher"
    return Hook(
        name=entry.name.strip() or f"{event.value} {int(place[-1]) + 1} of {file.label}",
        event=event,
        command=command,
        matcher=tool_matcher(entry.match or entry.matcher, where=source.where((*place, key))),
        timeout_seconds=entry.timeout,
        retries=entry.retries,
        project_dir=file.project_dir,
        strict=entry.strict,
    )


def _event(source: TomlSource, path: RawPath, word: str) -> HookEvent:
    event = event_named(word)
    if event is None:
        known = ", ".join(event.value for event in HookEvent)
        wrong = f"must be one of {known} (or what other tools call them), not {word!r}"
        raise ConfigError(source.where(path), "hooks.event", wrong if word else f"is missing, give one of {known}")
    return event


BLOCKING_EXIT = 2
"""The exit code by which a hook blocks a call."""
MAX_TEXT = 4_000
"""The most characters of a hook's text that are passed to the model."""

_DOCUMENT = re.compile(r"^\s*\{", re.MULTILINE)
_BLOCKING = frozenset({"block", "deny", "denied", "reject"})
_PASSING = frozenset({"", "allow", "approve", "continue", "ask"})


class HookVerdict(Struct, frozen=True, kw_only=True):
    """The verdict of a hook: ``blocked`` with a ``reason``, and a ``message`` to the model; both texts may be empty.

    With ``asks``, the user must approve the call. ``arguments`` replace those of the call; None leaves them unchanged.
    """

    blocked: bool = False
    reason: str = ""
    message: str = ""
    asks: bool = False
    arguments: dict[str, Any] | None = None


class HookBrokenError(Exception):
    """A hook failed, or its answer can't be understood; the text is a phrase."""


def read_verdict(run: CommandResult) -> HookVerdict:
    """Read a hook's verdict: exit code 2 or ``{"decision": "deny"|"block", "reason": ...}`` blocks, exit code 0 passes.

    Output without a JSON object is ignored. No answer of a hook allows a call that is not allowed otherwise.

    Raises:
        HookBrokenError: another exit code, or JSON that is invalid or unknown.
    """
    if run.exit_code == BLOCKING_EXIT:
        reason = ""
        with suppress(HookBrokenError):  # the exit code blocks, whatever was printed
            reason = _reason(_document(run.stdout))
        return HookVerdict(blocked=True, reason=beginning(reason or run.stderr.strip() or run.stdout.strip(), MAX_TEXT))
    if run.exit_code != 0:
        raise HookBrokenError(f"exited with {run.exit_code}{_last_error_line(run)}")
    return _verdict_in(_document(run.stdout))


def _verdict_in(document: dict[str, Any]) -> HookVerdict:
    """Return the verdict in a hook's JSON document.

    Raises:
        HookBrokenError: the document can't be understood.
    """
    specific = _event_part(document)
    given = (specific.get("permissionDecision"), document.get("decision"))
    decision = _first_word(*given).casefold()
    if decision not in _BLOCKING | _PASSING or not all(isinstance(one, str | None) for one in given):
        raise HookBrokenError(f"answered with the unknown decision {decision or given!r}")
    context = (specific.get("additionalContext"), specific.get("additional_context"))
    message = _first_word(document.get("message"), *context)
    stopped = document.get("continue") is False
    return HookVerdict(
        blocked=decision in _BLOCKING or stopped,
        reason=beginning(_reason(document), MAX_TEXT),
        message=beginning(message, MAX_TEXT),
        asks=decision == "ask",
        arguments=_arguments(specific),
    )


def _event_part(document: dict[str, Any]) -> dict[str, Any]:
    """Return the event-specific part of a document, in the spelling of either agent."""
    return table_of(document.get("hookSpecificOutput")) | table_of(document.get("hook_specific_output"))


def _arguments(specific: dict[str, Any]) -> dict[str, Any] | None:
    for name in ("tool_input", "updatedInput"):  # Mistral Vibe's word, and Claude Code's
        if name in specific:
            if not isinstance(specific[name], dict):
                raise HookBrokenError(f"answered with a {name} that is not a JSON object")
            return specific[name]
    return None


def _document(output: str) -> dict[str, Any]:
    """Return the JSON object in a hook's output, from the first line that begins with a brace; empty without one.

    Raises:
        HookBrokenError: it is not valid JSON.
    """
    begins = _DOCUMENT.search(output)
    with error_as((ValueError, RecursionError), lambda error: HookBrokenError(f"answered with invalid JSON ({error})")):
        return table_of(json.loads(output[begins.start() :])) if begins else {}


def _reason(document: dict[str, Any]) -> str:
    specific = _event_part(document)
    return _first_word(document.get("reason"), specific.get("permissionDecisionReason"), document.get("stopReason"))


def _first_word(*values: Any) -> str:
    """Return the first value that is a non-empty text, as valid UTF-8."""
    words = (value.encode("utf-8", "replace").decode().strip() for value in values if isinstance(value, str))
    return next(filter(None, words), "")


def _last_error_line(run: CommandResult) -> str:
    line = next(iter(reversed(run.stderr.strip().splitlines())), "")
    return f" ({line[:200]})" if line else ""


MAX_RESULT = 64_000
"""The most characters of a tool's result or an answer that are passed to a hook."""

FOREIGN_EVENTS = {
    HookEvent.BEFORE_TOOL: "PreToolUse",
    HookEvent.AFTER_TOOL: "PostToolUse",
    HookEvent.POST_AGENT_TURN: "Stop",
}
"""The values of ``hook_event_name`` for scripts written for other agents."""


class HookCommands(Protocol):
    """Runs shell commands with text on their standard input."""

    async def run(self, hook: Hook, payload: str) -> CommandResult:
        """Run the hook to its end or its timeout, then end all processes it started.

        Raises:
            CommandStartError: the command could not be started.
        """
        ...


class HookRunner(Struct, eq=False):
    """Runs the hooks of one agent. ``about`` is added to every payload: the session, the folder and the subagent.

    A ``strict`` hook before a tool call that fails denies the call; all other failures are warnings.
    """

    hooks: Sequence[Hook]
    commands: HookCommands
    sink: EventSink
    about: Mapping[str, Any]

    async def before_tool(self, call: HookCall) -> HookAnswer:
        """Run the hooks before a call until one objects; each sees the changes of those before it."""
        changed, questions = list[str](), list[str]()
        for hook in self._hooks_for(HookEvent.BEFORE_TOOL, call.tool):
            try:
                verdict = await self._verdict(hook, self._payload(hook, call))
            except HookBrokenError as error:
                problem = f"the hook {hook.name!r} {error}, so its check did not run"
                self._warn(problem)
                if not hook.strict:
                    continue
                return HookAnswer(call=call, objection=problem)
            why = f": {verdict.reason}" if verdict.reason else ""
            if verdict.blocked:
                return HookAnswer(call=call, objection=f"denied by hook {hook.name!r}{why}")
            if verdict.asks:
                questions.append(f"the hook {hook.name!r} wants you to decide{why}")
            if verdict.arguments is not None and verdict.arguments != call.arguments:
                call = structs.replace(call, arguments=verdict.arguments)
                changed.append(repr(hook.name))
        return HookAnswer(call=call, changed=" and ".join(changed), question="; ".join(questions))

    async def after_tool(self, call: HookCall, *, status: str, result: str) -> tuple[str, ...]:
        """Run the hooks after a call, and return what they tell the model about it."""
        extra = {"status": status, "result": result[:MAX_RESULT], "tool_response": result[:MAX_RESULT]}
        notices: list[str] = []
        for hook in self._hooks_for(HookEvent.AFTER_TOOL, call.tool):
            verdict = await self._verdict_or_warn(hook, self._payload(hook, call) | extra)
            text = "\n".join(filter(None, (verdict.reason, verdict.message)))
            if text:
                notices.append(f"the hook {hook.name!r} says about {call.tool}: {text}")
        return tuple(notices)

    async def post_agent_turn(self, answer: str, *, again: int) -> str | None:
        """Run the hooks before an agent ends; return their notices if it must go on, else None.

        ``again`` counts how often in a row they have sent it back before.
        """
        extra = {"result": answer[:MAX_RESULT], "stop_hook_active": again > 0, "again": again}
        notices: list[str] = []
        for hook in self._hooks_for(HookEvent.POST_AGENT_TURN):
            verdict = await self._verdict_or_warn(hook, self._payload(hook) | extra)
            text = (verdict.reason or "it is not done") if verdict.blocked else verdict.message
            if text:
                notices.append(f"the hook {hook.name!r} says: {text}")
        return "\n\n".join(notices) or None

    def _hooks_for(self, event: HookEvent, tool: str | None = None) -> list[Hook]:
        return [hook for hook in self.hooks if hook.event is event and (tool is None or hook.is_about(tool))]

    def _payload(self, hook: Hook, call: HookCall | None = None) -> dict[str, Any]:
        """Return the JSON a hook gets, with each field under our name and under those of other agents."""
        payload = {"event": hook.event.value, "hook_event_name": FOREIGN_EVENTS[hook.event], **self.about}
        if call is not None:
            payload |= {
                "tool": call.tool,
                "tool_name": call.tool,
                "tool_call_id": call.tool_call_id,
                "arguments": call.arguments,
                "tool_input": call.arguments,
            }
        return payload

    async def _verdict_or_warn(self, hook: Hook, payload: Mapping[str, Any]) -> HookVerdict:
        try:
            return await self._verdict(hook, payload)
        except HookBrokenError as error:
            self._warn(f"the hook {hook.name!r} {error}")
            return HookVerdict()

    async def _verdict(self, hook: Hook, payload: Mapping[str, Any]) -> HookVerdict:
        """Run a hook, and retry it if it could not be started or ran out of time.

        Raises:
            HookBrokenError: the hook failed.
        """
        text = json.dumps(payload, ensure_ascii=False, default=str)
        if hook.call is not None:
            return _verdict_in(await hook.call(json.loads(text)))
        problem = ""
        for _ in range(hook.retries + 1):
            try:
                run = await self.commands.run(hook, text)
            except CommandStartError as error:
                problem = f"could not be started ({error.problem})"
                continue
            if not run.timed_out:
                return read_verdict(run)
            problem = f"ran longer than {hook.timeout_seconds:g} s"
        tries = f", {hook.retries + 1} times" if hook.retries else ""
        raise HookBrokenError(problem + tries)

    def _warn(self, problem: str) -> None:
        self.sink.publish(WarningEvent(code="hook", message=problem))
