"""Hooks and instructions of folders reach the model between its turns."""

from __future__ import annotations

from pathlib import Path

from ipc.sink import MemorySink
from subagents.agent.budget import Account, Limits
from tests.fakes.hooks import hook_run
from vibe.core.hooks.runner import Hook, HookCall, HookEvent, HookRunner
from vibe.core.instructions.project_docs import NestedDocs
from vibe.core.middleware.port import Notice, TurnContext, Warn
from vibe.core.middleware.reminders import MAX_RETURNS, GuidanceNotices
from vibe.core.session.folder import Transcript
from vibe.core.tools.guidance import CallGuidance
from vibe.shell.process.port import CommandResult

CONTEXT = TurnContext(transcript=Transcript(), budget=Account("a", Limits()), context_tokens=0)
CALL = HookCall(tool_call_id="1", tool="read_file", arguments={"path": "lib/a.py"})


class Unhappy:
    """Commands of hooks that complain until ``content`` is set."""

    def __init__(self) -> None:
        self.content = False

    async def run(self, hook: Hook, payload: str) -> CommandResult:  # noqa: ARG002  the port
        return hook_run(exit_code=0) if self.content else hook_run(exit_code=2, stderr="run the tests")


def stopping(commands: Unhappy) -> GuidanceNotices:
    hook = Hook(name="tests", event=HookEvent.POST_AGENT_TURN, command="x")
    return GuidanceNotices(CallGuidance(hooks=HookRunner([hook], commands, MemorySink(), {})))


async def test_an_agent_is_sent_back_only_so_often() -> None:
    commands = Unhappy()
    taught = stopping(commands)
    for _ in range(MAX_RETURNS):
        assert list(await taught.before_end(CONTEXT, "done")) == [Notice("the hook 'tests' says: run the tests")]
    (last,) = await taught.before_end(CONTEXT, "done")
    assert isinstance(last, Warn)
    assert "sent back 3 times" in last.message
    assert isinstance((await taught.before_end(CONTEXT, "a new prompt"))[0], Notice)
    commands.content = True
    assert list(await taught.before_end(CONTEXT, "done")) == []


async def test_what_was_said_about_calls_is_passed_on_once(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "AGENTS.md").write_text("lib rules")
    docs = NestedDocs(root=tmp_path, origin=tmp_path, trusts=lambda _: True)
    guidance = CallGuidance(docs=docs)
    taught = GuidanceNotices(guidance)
    await guidance.after_call(CALL, [tmp_path / "lib" / "a.py"], status="ok", result="x")
    (notice,) = await taught.before_turn(CONTEXT)
    assert isinstance(notice, Notice)
    assert "lib rules" in notice.text
    assert list(await taught.before_turn(CONTEXT)) == []
