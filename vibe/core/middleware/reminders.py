"""Notices of an agent beside its prompts.

Its list of things to do, where its conversation is shortened or continued; between its turns, those of hooks and of
folders' instructions about its work.
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
OK = "ok"

_items = TypeAdapter(list[TodoItem])


def todo_reminders(tools: ToolManager, transcript: Transcript) -> Reminders:
    """Reminds an agent of its list of things to do; ``tools`` is the view whose instances it uses.

    The list is the one the conversation left: a conversation that goes on, goes on with it.
    """
    tool = tools.get(TODO) if TODO in tools.available else None
    if not isinstance(tool, Todo):
        return lambda: ()
    if transcript.messages:
        tool.state.todos = _left_by(transcript, tool)
    transcript.memories = lambda: {**transcript.remembered, TODO: _items.dump_python(tool.state.todos, mode="json")}

    def read() -> Sequence[str]:
        todos = list(tool.state.todos)
        if not todos:
            return ()
        result = TodoResult(message="Your list of things to do", todos=todos, total_count=len(todos))
        return (tool.format_result(result),)

    return read


def _left_by(transcript: Transcript, tool: Todo) -> list[TodoItem]:
    """The list of the last call that wrote one, else what was remembered when the conversation was shortened."""
    done: set[str] = set()
    for message in reversed(transcript.messages):
        if isinstance(message, ToolMessage):
            if message.status == OK:
                done.add(message.tool_call_id)
            continue
        calls = message.tool_calls if isinstance(message, AssistantMessage) else ()
        for call in reversed(calls):
            written = _written(call.arguments, tool) if call.name == TODO and call.id in done else None
            if written is not None:
                return written
        done.clear()  # ids are only unique within an answer
    try:
        return _items.validate_python(transcript.remembered.get(TODO, []))
    except ValidationError:  # of another version
        return []


def _written(arguments: str, tool: Todo) -> list[TodoItem] | None:
    """The list a call wrote; None: it only read, or this version would not take it."""
    try:
        args = tool.parse(parse_arguments(TODO, arguments, tool.get_parameters()))
    except ToolError:
        return None
    return list(args.todos or ()) if args.action is TodoAction.WRITE else None


MAX_RETURNS = 3
"""The times in a row that hooks may send an agent back to work that believes it is done."""


def taught_reminders(guidance: CallGuidance, others: Reminders) -> Reminders:
    """Reminds an agent of what it was taught, besides what ``others`` remind it of."""
    return lambda: (*others(), *guidance.reminders())


class Taught(Middleware):
    """Passes on what ``guidance`` has gathered from the calls of one agent, and asks its hooks before it ends."""

    def __init__(self, guidance: CallGuidance) -> None:
        self._guidance = guidance
        self._returns = 0

    async def before_turn(self, context: TurnContext) -> Sequence[Verdict]:  # noqa: ARG002
        """Return what was said about the calls of the turn before."""
        return [Notice(text) for text in self._guidance.take_notices()]

    async def before_end(self, context: TurnContext, answer: str) -> Sequence[Notice | Warn]:  # noqa: ARG002
        """Return what hooks send back to an agent that believes it is done."""
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
