"""What an agent is reminded of after its conversation was shortened, read from where it is kept."""

from __future__ import annotations

from collections.abc import Sequence

from vibe.core.middleware.compactor import Reminders
from vibe.core.tools.builtins.todo import Todo, TodoResult
from vibe.core.tools.manager import ToolManager

TODO = "todo"


def todo_reminders(tools: ToolManager) -> Reminders:
    """Reminds an agent of its list of things to do; ``tools`` is the view whose instances it uses."""

    def read() -> Sequence[str]:
        tool = tools.get(TODO) if TODO in tools.available else None
        if not isinstance(tool, Todo) or not tool.state.todos:
            return ()
        todos = list(tool.state.todos)
        result = TodoResult(message="Your list of things to do", todos=todos, total_count=len(todos))
        return (tool.format_result(result),)

    return read
