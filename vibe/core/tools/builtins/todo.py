"""todo: the agent's own list of things to do."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import BaseModel, Field

from ipc.events import TodoDisplay, TodoEntry
from vibe.core.tools.base import BaseTool, BaseToolState, ToolArgs, ToolError, UnaskedConfig


class TodoStatus(StrEnum):
    """How far an item is."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


class TodoPriority(StrEnum):
    """How much it matters."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class TodoAction(StrEnum):
    """Look at the list, or replace it."""

    READ = "read"
    WRITE = "write"


class TodoItem(ToolArgs):
    """One thing to do."""

    id: str
    content: str
    status: TodoStatus = TodoStatus.PENDING
    priority: TodoPriority = TodoPriority.MEDIUM


class TodoArgs(ToolArgs):
    """The action. ``todos`` is the whole list, for ``write``."""

    action: TodoAction
    todos: list[TodoItem] | None = None


class TodoResult(BaseModel):
    """The list as it is now."""

    message: str
    todos: list[TodoItem]
    total_count: int


class TodoConfig(UnaskedConfig):
    """``max_todos`` is the most items of the list."""

    max_todos: Annotated[int, Field(ge=1)] = 100


class TodoState(BaseToolState):
    """The list of one agent."""

    todos: list[TodoItem] = Field(default_factory=list[TodoItem])


MARKS = {TodoStatus.PENDING: " ", TodoStatus.IN_PROGRESS: ">", TodoStatus.COMPLETED: "x", TodoStatus.CANCELLED: "-"}


class Todo(BaseTool[TodoArgs, TodoResult, TodoConfig, TodoState]):
    """Keeps a list of things to do."""

    description: ClassVar[str] = "Read or replace your list of things to do."
    read_only: ClassVar[bool] = True

    async def run(self, args: TodoArgs) -> TodoResult:
        """Return the list, after replacing it for ``write``.

        Raises:
            ToolError: the list can't be accepted as it is.
        """
        message = "the list"
        if args.action is TodoAction.WRITE:
            self.state.todos = _checked(args.todos, self.config.max_todos)
            message = "the list is now"
        elif args.todos is not None:
            raise ToolError("todo: action is 'read', but todos are given; use action 'write' to replace the list")
        return TodoResult(message=message, todos=list(self.state.todos), total_count=len(self.state.todos))

    def summarize(self, args: TodoArgs) -> str:
        """Return the action and the number of items: ``todo write (3 items)``."""
        return f"todo {args.action}" + (f" ({len(args.todos)} items)" if args.todos is not None else "")

    def display(self, result: TodoResult) -> TodoDisplay:
        """Return the whole list."""
        return TodoDisplay(
            items=tuple(
                TodoEntry(id=item.id, content=item.content, status=item.status.value, priority=item.priority.value)
                for item in result.todos
            )
        )

    def format_result(self, result: TodoResult) -> str:
        """Return one line per item: ``[x] 1 (high): content``."""
        if not result.todos:
            return "the list is empty"
        lines = (f"[{MARKS[item.status]}] {item.id} ({item.priority}): {item.content}" for item in result.todos)
        return f"{result.message} ([>] in progress, [x] completed, [-] cancelled):\n" + "\n".join(lines)


def _checked(todos: list[TodoItem] | None, most: int) -> list[TodoItem]:
    if todos is None:
        raise ToolError("todo: action is 'write', but todos are missing; give the whole list (an empty one clears it)")
    if len(todos) > most:
        raise ToolError(f"todo: {len(todos)} items are more than {most}; merge or drop some")
    ids = [item.id for item in todos]
    twice = sorted({item_id for item_id in ids if ids.count(item_id) > 1})
    if twice:
        raise ToolError(f"todo: the id {twice[0]!r} is used more than once; give each item an id of its own")
    empty = next((item for item in todos if not item.id.strip() or not item.content.strip()), None)
    if empty is not None:
        raise ToolError(f"todo: an item has an empty {'content' if empty.id.strip() else 'id'}; give it one")
    active = [item.id for item in todos if item.status is TodoStatus.IN_PROGRESS]
    if len(active) > 1:
        raise ToolError(f"todo: {' and '.join(active)} are all in_progress; let one be in progress, the others pending")
    return list(todos)
