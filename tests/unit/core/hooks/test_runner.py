"""Hooks: when they run, what they receive, and the effect of their answers and failures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ipc.events import WarningEvent
from ipc.sink import MemorySink
from tests.fakes.hooks import hook_run
from vibe.core.hooks.runner import Hook, HookAnswer, HookCall, HookEvent, HookRunner, tool_matcher
from vibe.shell.errors import CommandStartError
from vibe.shell.process.port import CommandResult

CALL = HookCall(tool_call_id="1", tool="bash", arguments={"command": "ls"})


class ScriptedCommands:
    """Answers each run with its next answer. The last one is repeated."""

    def __init__(self, *answers: CommandResult | CommandStartError) -> None:
        self.answers = list(answers)
        self.payloads: list[dict[str, Any]] = []
        self.ran: list[str] = []

    async def run(self, hook: Hook, payload: str) -> CommandResult:
        self.payloads.append(json.loads(payload))
        self.ran.append(hook.name)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, CommandStartError):
            raise answer
        return answer


def hook(event: HookEvent, *, name: str = "h", matcher: str = "", retries: int = 3) -> Hook:
    return Hook(name=name, event=event, command="x", matcher=tool_matcher(matcher, where="test"), retries=retries)


class Rig:
    def __init__(self, hooks: Sequence[Hook], *answers: CommandResult | CommandStartError) -> None:
        self.sink = MemorySink()
        self.commands = ScriptedCommands(*answers)
        self.runner = HookRunner(hooks, self.commands, self.sink, {"session_id": "s", "cwd": "/w", "subagent": None})

    @property
    def warnings(self) -> list[str]:
        return [event.message for event in self.sink.events if isinstance(event, WarningEvent)]


BEFORE, AFTER, DONE = HookEvent.BEFORE_TOOL, HookEvent.AFTER_TOOL, HookEvent.POST_AGENT_TURN
PASS = hook_run(exit_code=0)
STOP = hook_run(exit_code=2, stderr="not that")
LATE = hook_run(exit_code=-1, timed_out=True)


async def test_a_hook_is_told_the_call_in_both_vocabularies() -> None:
    rig = Rig([hook(BEFORE)], PASS)
    assert await rig.runner.before_tool(CALL) == HookAnswer(call=CALL)
    assert rig.commands.payloads == [
        {
            "event": "before_tool",
            "hook_event_name": "PreToolUse",
            "session_id": "s",
            "cwd": "/w",
            "subagent": None,
            "tool": "bash",
            "tool_name": "bash",
            "tool_call_id": "1",
            "arguments": {"command": "ls"},
            "tool_input": {"command": "ls"},
        }
    ]


async def test_only_hooks_about_the_tool_run() -> None:
    rig = Rig([hook(BEFORE, name="a", matcher="Write"), hook(BEFORE, name="b", matcher="Bash"), hook(AFTER)], PASS)
    await rig.runner.before_tool(CALL)
    assert rig.commands.ran == ["b"]


async def test_the_first_denial_decides() -> None:
    rig = Rig([hook(BEFORE, name="a"), hook(BEFORE, name="b")], STOP)
    assert (await rig.runner.before_tool(CALL)).objection == "denied by hook 'a': not that"
    assert rig.commands.ran == ["a"]
    assert rig.warnings == []


async def test_a_guard_that_crashes_denies_and_is_named() -> None:
    rig = Rig([hook(BEFORE, name="guard")], hook_run(exit_code=1))
    refusal = (await rig.runner.before_tool(CALL)).objection
    assert refusal == "the hook 'guard' exited with 1, so its check did not run"
    assert rig.warnings == [refusal]
    assert rig.commands.ran == ["guard"]


async def test_a_guard_that_runs_out_of_time_is_tried_again_and_then_denies() -> None:
    rig = Rig([hook(BEFORE, name="slow", retries=2)], LATE)
    refusal = (await rig.runner.before_tool(CALL)).objection
    assert refusal is not None
    assert refusal.startswith("the hook 'slow' ran longer than 30 s, 3 times")
    assert rig.commands.ran == ["slow"] * 3


async def test_a_hook_that_works_the_second_time_is_no_failure() -> None:
    rig = Rig([hook(BEFORE)], CommandStartError(Path(), "no process left"), PASS)
    assert await rig.runner.before_tool(CALL) == HookAnswer(call=CALL)
    assert rig.warnings == []


async def test_hooks_comment_on_results() -> None:
    rig = Rig([hook(AFTER, name="lint")], hook_run(exit_code=0, stdout='{"message": "line 3 is too long"}'))
    assert await rig.runner.after_tool(CALL, status="ok", result="done") == (
        "the hook 'lint' says about bash: line 3 is too long",
    )
    assert (rig.commands.payloads[0]["result"], rig.commands.payloads[0]["status"]) == ("done", "ok")


async def test_a_commenting_hook_that_fails_is_a_warning() -> None:
    rig = Rig([hook(AFTER, name="lint", retries=0)], CommandStartError(Path(), "no shell"))
    assert await rig.runner.after_tool(CALL, status="ok", result="done") == ()
    assert rig.warnings == ["the hook 'lint' could not be started (no shell)"]


async def test_hooks_send_an_agent_back_to_work() -> None:
    rig = Rig([hook(DONE, name="tests")], STOP)
    assert await rig.runner.post_agent_turn("I am done", again=1) == "the hook 'tests' says: not that"
    assert rig.commands.payloads[0]["again"] == 1
    assert rig.commands.payloads[0]["stop_hook_active"] is True
    assert rig.commands.payloads[0]["result"] == "I am done"


async def test_hooks_that_are_content_send_nothing_back() -> None:
    rig = Rig([hook(DONE)], PASS)
    assert await rig.runner.post_agent_turn("done", again=0) is None


def rewriting(command: str, spelling: str = "hook_specific_output") -> CommandResult:
    return hook_run(exit_code=0, stdout=json.dumps({spelling: {"tool_input": {"command": command}}}))


async def test_a_hook_changes_the_arguments_and_the_next_one_sees_that() -> None:
    rig = Rig([hook(BEFORE, name="a"), hook(BEFORE, name="b")], rewriting("ls -l"), PASS)
    answer = await rig.runner.before_tool(CALL)
    assert (answer.objection, answer.changed) == (None, "'a'")
    assert answer.call.arguments == {"command": "ls -l"}
    assert rig.commands.payloads[1]["tool_input"] == {"command": "ls -l"}


async def test_the_same_arguments_again_are_no_change() -> None:
    rig = Rig([hook(BEFORE)], rewriting("ls"))
    assert await rig.runner.before_tool(CALL) == HookAnswer(call=CALL)


async def test_a_hook_that_is_not_strict_and_fails_is_a_warning() -> None:
    rig = Rig([replace(hook(BEFORE), strict=False)], hook_run(exit_code=1))
    assert await rig.runner.before_tool(CALL) == HookAnswer(call=CALL)
    assert rig.warnings == ["the hook 'h' exited with 1, so its check did not run"]
