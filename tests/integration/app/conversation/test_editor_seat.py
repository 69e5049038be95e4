"""A conversation with somebody at an editor, with unsaved files and terminals."""

from __future__ import annotations

import json

from anyio import Path
from msgspec.structs import replace

from ipc.events import ToolResultEvent
from tests.fakes.editor import EditorFiles, ScriptedTerminals
from tests.fakes.model_server import Reply, ServedCall
from tests.integration.app.conversation.conftest import Rig
from vibe.app.conversation.opening import AgentChange
from vibe.app.conversation.runtime import Runtime
from vibe.core.messages import Outcome


def called(name: str, **arguments: str) -> Reply:
    return Reply(tool_calls=(ServedCall(name=name, arguments=json.dumps(arguments)),))


async def test_its_agents_work_on_the_editors_files_and_in_its_terminals(rig: Rig) -> None:
    rig.server.enqueue(
        called("search_replace", file_path="a.txt", old_string="two", new_string="TWO"),
        called("bash", command="ls"),
        Reply(text="done"),
        called("bash", command="pwd"),
        Reply(text="done again"),
    )
    editor, terminals = EditorFiles(), ScriptedTerminals(("in a terminal\n", 0), ("in another\n", 0))
    editor.buffers[rig.folder / "a.txt"] = "one\ntwo, not saved\n"
    async with Runtime(rig.host) as runtime:
        seat = replace(rig.seat, files=editor, commands=terminals)
        conversation = await runtime.open_conversation(rig.opening(), seat)
        first = await conversation.send("Shout @a.txt")
        await conversation.configure(AgentChange(model="second"))
        second = await conversation.send("Where are you?")

    assert (first.acted.outcome, second.acted.outcome) == (Outcome.COMPLETED, Outcome.COMPLETED)
    assert "two, not saved" in rig.server.requests[0].body["messages"][-1]["content"]
    assert await Path(rig.folder / "a.txt").read_text() == "one\nTWO, not saved\n"
    assert editor.buffers[rig.folder / "a.txt"] == "one\nTWO, not saved\n"
    results = [event.content for event in rig.seen(ToolResultEvent)]
    assert results[1:] == ["in a terminal", "in another"]
