"""The meaning of a hook's exit code and output."""

from __future__ import annotations

import json

import pytest

from tests.fakes.hooks import hook_run
from vibe.core.hooks.runner import MAX_TEXT, HookBrokenError, HookVerdict, read_verdict
from vibe.shell.process.port import CommandResult


@pytest.mark.parametrize(
    ("run", "verdict"),
    [
        (hook_run(exit_code=0), HookVerdict()),
        (hook_run(exit_code=0, stdout="all is well\n"), HookVerdict()),
        (hook_run(exit_code=2, stderr="no rm\n"), HookVerdict(blocked=True, reason="no rm")),
        (hook_run(exit_code=2), HookVerdict(blocked=True)),
        (hook_run(exit_code=2, stdout='{"reason": "why"}'), HookVerdict(blocked=True, reason="why")),
        (hook_run(exit_code=0, stdout='{"decision": "deny", "reason": "r"}'), HookVerdict(blocked=True, reason="r")),
        (hook_run(exit_code=0, stdout='{"decision": "Block"}'), HookVerdict(blocked=True)),
        (hook_run(exit_code=0, stdout='{"decision": "approve"}'), HookVerdict()),
        (hook_run(exit_code=0, stdout='{"decision": "ask", "reason": "r"}'), HookVerdict(asks=True, reason="r")),
        (hook_run(exit_code=0, stdout='looking\n {"decision": "deny"}\n'), HookVerdict(blocked=True)),
        (hook_run(exit_code=0, stdout="formatted {a} and {b}\n"), HookVerdict()),
        (hook_run(exit_code=2, stdout="{not: json}"), HookVerdict(blocked=True, reason="{not: json}")),
        (hook_run(exit_code=0, stdout='{"message": "half \\ud800"}'), HookVerdict(message="half ?")),
        (hook_run(exit_code=0, stdout='{"message": "run the formatter"}'), HookVerdict(message="run the formatter")),
        (hook_run(exit_code=0, stdout='{"continue": false, "stopReason": "x"}'), HookVerdict(blocked=True, reason="x")),
        (
            hook_run(
                exit_code=0,
                stdout=json.dumps({
                    "hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "secret"}
                }),
            ),
            HookVerdict(blocked=True, reason="secret"),
        ),
        (
            hook_run(exit_code=0, stdout='{"hookSpecificOutput": {"additionalContext": "note"}}'),
            HookVerdict(message="note"),
        ),
    ],
)
def test_verdicts(run: CommandResult, verdict: HookVerdict) -> None:
    assert read_verdict(run) == verdict


@pytest.mark.parametrize(
    ("run", "problem"),
    [
        (hook_run(exit_code=1, stderr="Traceback\nKeyError: 'tool'\n"), r"exited with 1 \(KeyError: 'tool'\)"),
        (hook_run(exit_code=127), "exited with 127"),
        (hook_run(exit_code=0, stdout='{"decision": "de'), "invalid JSON"),
        (hook_run(exit_code=0, stdout='{"decision": "denny"}'), "unknown decision 'denny'"),
        (hook_run(exit_code=0, stdout='{"decision": 3}'), r"unknown decision \(None, 3\)"),
        (hook_run(exit_code=0, stdout='{"decision": ["deny"]}'), r"unknown decision \(None, \['deny'\]\)"),
        (
            hook_run(exit_code=0, stdout='{"hook_specific_output": {"tool_input": "ls"}}'),
            "tool_input that is not a JSON",
        ),
    ],
)
def test_what_cannot_be_understood_is_no_verdict(run: CommandResult, problem: str) -> None:
    with pytest.raises(HookBrokenError, match=problem):
        read_verdict(run)


def test_a_long_reason_is_cut() -> None:
    verdict = read_verdict(hook_run(exit_code=2, stderr="x" * 10_000))
    assert len(verdict.reason) < MAX_TEXT + 100
