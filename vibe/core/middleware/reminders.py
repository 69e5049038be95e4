"""Reminders and notices that an agent gets besides its prompts.

Its to-do list is repeated when its conversation is shortened or resumed. Between turns it gets the notices of hooks and
of the instructions in folders it works in.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import TypeAdapter, ValidationError

from vibe.core.messages import AssistantMessage, ToolMessage
from vibe.core.middleware.port import Middleware, Notice, Reminders, TurnContext, Verdict, Warn
from vibe.core.session.folder import Transcript
from vibe.core.tools.builtins.todo import Todo, TodoAction, TodoItem, TodoResult
from vibe.core.tools.errors import ToolError
from vibe.core.tools.guidance import CallGuidance
from vibe.core.tools.manager import ToolManager
from vibe.core.tools.schema import parse_arguments

TODO = "todo"

_items = TypeAdapter(list[TodoItem])


def todo_reminders(tools: ToolManager, transcript: Transcript) -> Reminders:
    """Return a function that reads an agent's to-do list from its tool; ``tools`` holds the agent's own instances.

    If the transcript is not empty, the to-do tool first gets back the list that the conversation left.
    """
    tool = tools.get(TODO) if TODO in tools.available else None
    if not isinstance(tool, Todo):
        return lambda: ()
    if transcript.messages:
        tool.state.todos = _restored(transcript, tool)
    transcript.memories = lambda: {**transcript.remembered, TODO: _items.dump_python(tool.state.todos, mode="json")}

    def read() -> Sequence[str]:
        todos = list(tool.state.todos)
        if not todos:
            return ()
        result = TodoResult(message="Your list of things to do", todos=todos, total_count=len(todos))
        return (tool.format_result(result),)

    return read


def _restored(transcript: Transcript, tool: Todo) -> list[TodoItem]:
    """Return the list of the last call that wrote one, else the one kept when the conversation was shortened."""
    done: set[str] = set()
    for message in reversed(transcript.messages):
        if isinstance(message, ToolMessage):
            if message.status == "ok":
                done.add(message.tool_call_id)
            continue
        calls = message.tool_calls if isinstance(message, AssistantMessage) else ()
        for call in reversed(calls):
            written = _list_written(call.arguments, tool) if call.name == TODO and call.id in done else None
            if written is not None:
                return written
        done.clear()  # call ids are only unique within one answer
    try:
        return _items.validate_python(transcript.remembered.get(TODO, []))
    except ValidationError:  # another version wrote it
        return []


def _list_written(arguments: str, tool: Todo) -> list[TodoItem] | None:
    """Return the list a call wrote; None if it only read the list, or this version does not accept it."""
    try:
        args = tool.parse(parse_arguments(TODO, arguments, tool.get_parameters()))
    except ToolError:
        return None
    return list(args.todos or ()) if args.action is TodoAction.WRITE else None


MAX_RETURNS = 3
"""The most times in a row that hooks may send an agent back to work when it wants to end."""


class GuidanceNotices(Middleware):
    """Passes the notices that ``guidance`` collects during an agent's calls on to its model.

    Before the agent ends, its hooks are asked whether it must go on.
    """

    def __init__(self, guidance: CallGuidance) -> None:
        self._guidance = guidance
        self._returns = 0

    async def before_turn(self, context: TurnContext) -> Sequence[Verdict]:  # noqa: ARG002
        """Return the notices about the calls of the previous turn."""
        return [Notice(text) for text in self._guidance.take_notices()]

    async def before_end(self, context: TurnContext, answer: str) -> Sequence[Notice | Warn]:  # noqa: ARG002
        """Ask the hooks; return a notice if one sends the agent back, up to ``MAX_RETURNS`` times in a row."""
        hooks = self._guidance.hooks
        text = await hooks.post_agent_turn(answer, again=self._returns) if hooks is not None else None
        if text is None:
            self._returns = 0
            return ()
        if self._returns == MAX_RETURNS:
            self._returns = 0
            message = f"{text} (the agent was sent back {MAX_RETURNS} times already, and ends now)"
            return [Warn(code="hook", message=message)]
        self._returns += 1
        return [Notice(text)]
