from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.core.tools.builtins.calling import Caller, make
from vibe.core.tools.builtins.todo import Todo
from vibe.core.tools.errors import ToolArgumentsError, ToolError


def item(item_id: str, status: str = "pending", content: str = "do it") -> dict[str, Any]:
    return {"id": item_id, "content": content, "status": status, "priority": "high"}


async def test_the_list_written_is_the_list_read(tmp_path: Path) -> None:
    tool, caller = make(Todo), Caller(root=tmp_path)
    assert tool.format_result(await caller.call(tool, action="read")) == "the list is empty"
    await caller.call(tool, action="write", todos=[item("1", "in_progress"), item("2")])
    result = await caller.call(tool, action="read")
    assert (result.total_count, [todo.id for todo in result.todos]) == (2, ["1", "2"])
    assert tool.format_result(result).endswith("[>] 1 (high): do it\n[ ] 2 (high): do it")
    await caller.call(tool, action="write", todos=[])
    assert (await caller.call(tool, action="read")).total_count == 0


async def test_each_agent_has_a_list_of_its_own(tmp_path: Path) -> None:
    first, second, caller = make(Todo), make(Todo), Caller(root=tmp_path)
    await caller.call(first, action="write", todos=[item("1")])
    assert (await caller.call(second, action="read")).total_count == 0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"action": "write"}, "todos are missing"),
        ({"action": "read", "todos": [item("1")]}, "use action 'write'"),
        ({"action": "write", "todos": [item(str(number)) for number in range(101)]}, "101 items are more than 100"),
        ({"action": "write", "todos": [item("a"), item("a")]}, "'a' is used more than once"),
        ({"action": "write", "todos": [item("1", "in_progress"), item("2", "in_progress")]}, "1 and 2 are all"),
        ({"action": "write", "todos": [item("1", content=" ")]}, "empty content"),
    ],
)
async def test_a_list_that_breaks_a_rule_is_refused_and_the_old_one_stays(
    tmp_path: Path, arguments: dict[str, Any], problem: str
) -> None:
    tool, caller = make(Todo), Caller(root=tmp_path)
    await caller.call(tool, action="write", todos=[item("old")])
    with pytest.raises(ToolError, match=problem):
        await caller.call(tool, **arguments)
    assert [todo.id for todo in (await caller.call(tool, action="read")).todos] == ["old"]


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"action": "delete"}, r"arguments\.action"),
        ({"action": "write", "todos": [item("1", "done")]}, r"arguments\.todos\[0\]\.status"),
        ({"action": "write", "todos": [{**item("1"), "priority": "urgent"}]}, r"arguments\.todos\[0\]\.priority"),
    ],
)
async def test_unknown_words_name_the_field(tmp_path: Path, arguments: dict[str, Any], path: str) -> None:
    with pytest.raises(ToolArgumentsError, match=path):
        await Caller(root=tmp_path).call(make(Todo), **arguments)
