"""Translates events into an editor's updates of a session, which the session's channel sends in order."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import dropwhile
from pathlib import Path
from types import MappingProxyType
from typing import Any

from acp import Client, helpers, schema
from anyio import Event
from pydantic import ValidationError

from ipc import events as e
from planner.plan.status import items_text
from vibe.front.event_text import describe, problem_text
from vibe.system.plain_text import both_ends, one_line, plain, plain_line
from vibe.view.plan_view import FINAL, RUNNING, StepView
from vibe.view.view import PASSING, View, apply

logger = logging.getLogger(__name__)

SessionUpdate = helpers.SessionUpdate | schema.ConfigOptionUpdate | schema.UsageUpdate
"""Any update that an editor can get about a session."""
OUTPUT_LENGTH = 16_000
"""The most characters, counted from the end, that are shown of the output of a running call."""
TODO_STATES: Mapping[str, schema.PlanEntryStatus] = MappingProxyType({
    "in_progress": "in_progress",
    "completed": "completed",
    "cancelled": "completed",
})
"""The editor's status for an item's. Others are ``pending``."""
PRIORITIES: Mapping[str, schema.PlanEntryPriority] = MappingProxyType({"high": "high", "low": "low"})
KINDS: Mapping[str, schema.ToolKind] = MappingProxyType({
    "read_file": "read",
    **dict.fromkeys(("list_dir", "glob", "grep"), "search"),
    **dict.fromkeys(("search_replace", "write_file"), "edit"),
    **dict.fromkeys(("bash", "background", "shell"), "execute"),
    "todo": "think",
    "web_fetch": "fetch",
})
"""The kinds of tools. All others are of the kind ``other``."""
TITLE_LENGTH = 300
"""The most characters of a call's title."""
TEXT_LENGTH = 16_000
"""The most characters of a text that are shown."""
PATHS = ("file_path", "path")
"""Arguments that name a file."""
NEW_FILE = "write_file"
"""The tool whose argument ``content`` is the whole of a new file."""


class SessionUpdates:
    """Translates the events of one session, one after the other. Paths are relative to ``root``.

    Of subagents and the agents of steps, only tool calls are shown, with the name of the caller.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._view = View()
        self._streamed: dict[str, int] = {}
        self._calls: dict[str, tuple[str, e.ToolCallEvent]] = {}
        self._output: dict[str, str] = {}
        self._terminals: dict[str, str] = {}
        self._entries: list[schema.PlanEntry] = []

    def for_event(self, event: e.Event) -> list[SessionUpdate]:
        """Return the updates for an event."""
        apply(self._view, event)
        return [*self._event_updates(event), *self._plan_updates(event)]

    def end_calls(self) -> list[SessionUpdate]:
        """Return an end for each call without one, after whatever made the call was stopped."""
        ended: list[SessionUpdate] = [
            helpers.update_tool_call(shown_id, status="failed") for shown_id, _ in self._calls.values()
        ]
        for calls in (self._calls, self._output, self._terminals):
            calls.clear()
        return ended

    def call_id(self, tool_call_id: str) -> str:
        """Return the id by which the editor knows a call."""
        return self._calls[tool_call_id][0] if tool_call_id in self._calls else tool_call_id

    def in_terminal(self, tool_call_id: str, terminal_id: str) -> SessionUpdate:
        """Return an update that shows a terminal as the content of a call."""
        self._terminals[tool_call_id] = terminal_id
        return helpers.update_tool_call(self.call_id(tool_call_id), content=[helpers.tool_terminal_ref(terminal_id)])

    def _event_updates(self, event: e.Event) -> Iterator[SessionUpdate]:
        """Yield the updates for everything but the plan. Some events only change the state that later updates show."""
        match event:
            case e.AssistantDeltaEvent() | e.ReasoningDeltaEvent():
                yield from self._delta(event)
            case e.AssistantEvent():
                yield from self._answer(event)
            case e.ToolCallEvent():
                yield self._call(event)
            case e.ToolStreamEvent() if event.tool_call_id not in self._terminals:
                output = (self._output.get(event.tool_call_id, "") + event.text)[-OUTPUT_LENGTH:]
                self._output[event.tool_call_id] = output
                yield helpers.update_tool_call(self.call_id(event.tool_call_id), content=text_of(output, is_code=True))
            case e.ToolResultEvent():
                yield from self._result(event)
            case e.UsageEvent():
                yield from self._usage(event)
            case e.WarningEvent() | e.ErrorEvent() if event.code not in PASSING or not _from_subagent(event):
                yield thought_chunk(f"{plain_line(problem_text(event))}\n")
            case e.ToolServerEvent(status="starting"):  # The prompt waits for it.
                yield thought_chunk(f"{describe(event)}\n")
            case _:
                pass

    def _delta(self, event: e.AssistantDeltaEvent | e.ReasoningDeltaEvent) -> Iterator[SessionUpdate]:
        if _from_subagent(event) or not event.text:
            return
        before = self._streamed.get(event.message_id, event.attempt)
        self._streamed[event.message_id] = event.attempt
        if event.attempt != before:
            yield thought_chunk("(the connection broke: once more)\n")
        make = message_chunk if isinstance(event, e.AssistantDeltaEvent) else thought_chunk
        yield make(plain(event.text), event.message_id)

    def _answer(self, event: e.AssistantEvent) -> Iterator[SessionUpdate]:
        was_streamed = self._streamed.pop(event.message_id, None) is not None
        if not _from_subagent(event) and event.text and not was_streamed:
            yield message_chunk(plain(event.text))

    def _call(self, event: e.ToolCallEvent) -> SessionUpdate:
        agent = self._view.agent_of(event)
        who = event.subagent_step_id or plain_line((agent and (agent.profile or agent.title)) or "subagent")
        shown_id = f"{event.subagent_id or event.subagent_step_id}/{event.tool_call_id}"
        own = not _from_subagent(event)
        self._calls[event.tool_call_id] = (event.tool_call_id if own else shown_id, event)
        return helpers.start_tool_call(
            self.call_id(event.tool_call_id),
            title_of(event) if own else f"{who}: {title_of(event)}",
            kind=kind_of(event.tool),
            status="in_progress",
            locations=locations_of(event.arguments, self._root),
            raw_input=event.arguments,
        )

    def _result(self, event: e.ToolResultEvent) -> Iterator[SessionUpdate]:
        shown_id, call = self._calls.pop(event.tool_call_id, (event.tool_call_id, None))
        self._output.pop(event.tool_call_id, None)
        in_terminal = self._terminals.pop(event.tool_call_id, None) is not None
        is_done = event.status == "ok"
        content: list[helpers.ToolCallContentVariant] | None = None
        if call is not None and is_done:
            content = changes_of(event.diff, call, self._root)
        if not in_terminal:
            content = content or text_of(event.content, is_code=kind_of(event.tool) in {"execute", "search"})
        yield helpers.update_tool_call(shown_id, status="completed" if is_done else "failed", content=content or None)
        if isinstance(event.display, e.TodoDisplay) and not _from_subagent(event):
            yield helpers.update_plan([_todo(item) for item in event.display.items])

    def _usage(self, event: e.UsageEvent) -> Iterator[SessionUpdate]:
        main, spent = self._view.main, self._view.spent.cost_usd
        if main is not None and main.context_limit is not None and not _from_subagent(event):
            cost = None if spent is None else schema.Cost(amount=spent, currency="USD")
            used = event.prompt_tokens + event.completion_tokens
            yield schema.UsageUpdate(session_update="usage_update", used=used, size=main.context_limit, cost=cost)

    def _plan_updates(self, event: e.Event) -> list[SessionUpdate]:
        """Return the current plan if it has changed, with its steps in the order of the plan."""
        if event.plan_id is None:
            return []
        plan = self._view.plan
        entries = [] if plan is None else [_entry(step) for step in plan.listed()]
        if entries == self._entries:
            return []
        self._entries = entries
        return [helpers.update_plan(entries)]


def message_chunk(text: str, message_id: str | None = None) -> schema.AgentMessageChunk:
    """Return text for the person. It may be one piece of a longer message."""
    return schema.AgentMessageChunk(
        session_update="agent_message_chunk", content=helpers.text_block(text), message_id=message_id
    )


def thought_chunk(text: str, message_id: str | None = None) -> schema.AgentThoughtChunk:
    """Return text that an editor folds away. It may be one piece of a longer message."""
    return schema.AgentThoughtChunk(
        session_update="agent_thought_chunk", content=helpers.text_block(text), message_id=message_id
    )


def kind_of(tool: str) -> schema.ToolKind:
    """Return the kind of a tool."""
    return KINDS.get(tool, "other")


def title_of(event: e.ToolCallEvent | e.ApprovalRequestEvent) -> str:
    """Return a call on one line."""
    return one_line(event.summary or event.tool, TITLE_LENGTH)


def locations_of(arguments: Mapping[str, Any], root: Path) -> list[schema.ToolCallLocation]:
    """Return the file that a call names, so that the editor can follow the agent."""
    path = _path_of(arguments, root)
    offset = arguments.get("offset")
    line = offset + 1 if isinstance(offset, int) and offset >= 0 else None
    return [] if path is None else [schema.ToolCallLocation(path=path, line=line)]


def changes_of(
    diff: str, event: e.ToolCallEvent | e.ApprovalRequestEvent, root: Path
) -> list[helpers.ToolCallContentVariant]:
    """Return the change that a call makes to a file, in one piece for each place, or nothing if no change is known."""
    path = _path_of(event.arguments, root)
    if path is None or kind_of(event.tool) != "edit":
        return []
    if diff:
        return [helpers.tool_diff_content(path, new, old) for old, new in _places(diff)]
    content = event.arguments.get("content")
    is_new = event.tool == NEW_FILE and isinstance(content, str)
    return [helpers.tool_diff_content(path, str(content))] if is_new else []


def text_of(text: str, *, is_code: bool = False) -> list[helpers.ToolCallContentVariant]:
    """Return a text as content, safe to show and limited in length. If ``is_code``, it is shown in a code block."""
    shown = plain(both_ends(text, TEXT_LENGTH)).strip("\n")
    if not shown.strip():
        return []
    return [helpers.tool_content(helpers.text_block(as_code(shown) if is_code else shown))]


def as_code(text: str) -> str:
    """Return a text as a Markdown code block, whatever fences it contains."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"


def _from_subagent(event: e.Event) -> bool:
    """Return whether an event comes from another agent than the conversation's."""
    return event.subagent_id is not None or event.subagent_step_id is not None


def _todo(item: e.TodoEntry) -> schema.PlanEntry:
    content = f"{plain_line(item.content)} (cancelled)" if item.status == "cancelled" else plain_line(item.content)
    priority = PRIORITIES.get(item.priority, "medium")
    return helpers.plan_entry(content, priority=priority, status=TODO_STATES.get(item.status, "pending"))


def _entry(step: StepView) -> schema.PlanEntry:
    """Return a step of a plan. A status that the protocol lacks is written out in the text."""
    items = f"  {items_text(item.status for item in step.items)}" if step.items else ""
    is_running = step.status == RUNNING or any(item.status == RUNNING for item in step.items)
    status: schema.PlanEntryStatus = "in_progress" if is_running else "completed" if step.status in FINAL else "pending"
    words = "" if is_running or step.status in {"pending", "completed", RUNNING} else step.status.replace("_", " ")
    why = f": {plain_line(step.reason)}" if words and step.reason else ""
    return helpers.plan_entry(f"{plain_line(step.title)}{items}{f' ({words}{why})' if words else ''}", status=status)


def _path_of(arguments: Mapping[str, Any], root: Path) -> str | None:
    given = next((arguments[name] for name in PATHS if isinstance(arguments.get(name), str)), "")
    return str(root / given) if given and "\0" not in given else None


def _places(diff: str) -> Iterator[tuple[str, str]]:
    """Yield the whole lines before and after at each place of a unified diff. A diff may be cut off."""
    old, new = list[str](), list[str]()
    # The note stands below a line that no line break ends.
    lines = diff.replace("\n\\ No newline at end of file", "\0").split("\n")
    for line in [*dropwhile(lambda line: not line.startswith("@@"), lines), "@@"]:
        if line.startswith("@@"):
            if old or new:
                yield "".join(old), "".join(new)
            old, new = [], []
        else:
            text = f"{line[1:]}\n".removesuffix("\0\n")
            old += [text] if line[:1] in {" ", "-", ""} else []
            new += [text] if line[:1] in {" ", "+", ""} else []


class SessionChannel:
    """The channel to the editor for one session, which works in ``root``. It is an ``EventSink``.

    ``updates`` translates events. Updates are sent while ``run`` is running. If the editor is too slow, waiting texts,
    outputs and states are merged. ``stop`` is called if the person stops the work instead of answering a question.
    """

    def __init__(self, client: Client, root: Path, stop: Callable[[], object]) -> None:
        self.client = client
        self.root = root
        self.stop = stop
        self.session_id = ""
        self.updates = SessionUpdates(root)
        self._waiting = deque[SessionUpdate]()
        self._news, self._rest = Event(), Event()
        self._rest.set()
        self._is_over = False

    def publish(self, event: e.Event) -> None:
        """Send the editor the updates for an event."""
        self.put(*self.updates.for_event(event))

    def put(self, *updates: SessionUpdate) -> None:
        """Queue updates for sending. After the end of ``run`` they are dropped."""
        for update in () if self._is_over else updates:
            merged = _merged(self._waiting[-1], update) if self._waiting else None
            if merged is not None:
                self._waiting[-1] = merged
                continue
            if self._rest.is_set():
                self._rest = Event()
            self._waiting.append(update)
            self._news.set()

    async def flush(self) -> None:
        """Wait until all queued updates are sent."""
        await self._rest.wait()

    async def run(self) -> None:
        """Send updates until cancelled. One that can't be sent is logged and skipped."""
        try:
            while True:
                await self._news.wait()
                self._news = Event()
                while self._waiting:
                    await self._send(self._waiting.popleft())
                self._rest.set()
        except ConnectionError:
            return  # The server notices this, too.
        finally:
            self._is_over = True
            self._waiting.clear()
            self._rest.set()

    async def _send(self, update: SessionUpdate) -> None:
        try:
            await self.client.session_update(self.session_id, update)
        except ValueError:
            logger.exception("an update can't be sent: %s", update.session_update)


def reason_of(error: Exception) -> str:
    """Return why an editor did not do what it was asked to do, on one line."""
    problem = "its answer does not fit the protocol" if isinstance(error, ValidationError) else str(error)
    return plain_line(problem) or "it gave no reason"


def _merged(last: SessionUpdate, update: SessionUpdate) -> SessionUpdate | None:
    """Return one update in place of two, or None if both are needed."""
    match last, update:
        case (schema.AgentPlanUpdate(), schema.AgentPlanUpdate()) | (schema.UsageUpdate(), schema.UsageUpdate()):
            return update
        case schema.ToolCallProgress(), schema.ToolCallProgress() if last.tool_call_id == update.tool_call_id:
            given = {name: getattr(update, name) for name in update.model_fields_set}
            return last.model_copy(update={name: value for name, value in given.items() if value is not None})
        case (
            schema.AgentMessageChunk(content=schema.TextContentBlock(text=text), message_id=message_id)
            | schema.AgentThoughtChunk(content=schema.TextContentBlock(text=text), message_id=message_id),
            schema.AgentMessageChunk(content=schema.TextContentBlock(text=more), message_id=other_id)
            | schema.AgentThoughtChunk(content=schema.TextContentBlock(text=more), message_id=other_id),
        ) if message_id == other_id and type(last) is type(update):
            return last.model_copy(update={"content": helpers.text_block(text + more)})
        case _:
            return None
