"""What a hook's exit code and output mean."""

from __future__ import annotations

import json

import pytest

from vibe.core.hooks.runner import MAX_TEXT, HookBrokenError, HookRun, HookVerdict, read_verdict


@pytest.mark.parametrize(
    ("run", "verdict"),
    [
        (HookRun(exit_code=0), HookVerdict()),
        (HookRun(exit_code=0, stdout="all is well\n"), HookVerdict()),
        (HookRun(exit_code=2, stderr="no rm\n"), HookVerdict(blocked=True, reason="no rm")),
        (HookRun(exit_code=2), HookVerdict(blocked=True)),
        (HookRun(exit_code=2, stdout='{"reason": "why"}'), HookVerdict(blocked=True, reason="why")),
        (HookRun(exit_code=0, stdout='{"decision": "deny", "reason": "r"}'), HookVerdict(blocked=True, reason="r")),
        (HookRun(exit_code=0, stdout='{"decision": "Block"}'), HookVerdict(blocked=True)),
        (HookRun(exit_code=0, stdout='{"decision": "approve"}'), HookVerdict()),
        (HookRun(exit_code=0, stdout='{"message": "run the formatter"}'), HookVerdict(message="run the formatter")),
        (HookRun(exit_code=0, stdout='{"continue": false, "stopReason": "x"}'), HookVerdict(blocked=True, reason="x")),
        (
            HookRun(
                exit_code=0,
                stdout=json.dumps({
                    "hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "secret"}
                }),
            ),
            HookVerdict(blocked=True, reason="secret"),
        ),
        (
            HookRun(exit_code=0, stdout='{"hookSpecificOutput": {"additionalContext": "note"}}'),
            HookVerdict(message="note"),
        ),
    ],
)
def test_verdicts(run: HookRun, verdict: HookVerdict) -> None:
    assert read_verdict(run) == verdict


@pytest.mark.parametrize(
    ("run", "problem"),
    [
        (HookRun(exit_code=1, stderr="Traceback\nKeyError: 'tool'\n"), r"exited with 1 \(KeyError: 'tool'\)"),
        (HookRun(exit_code=127), "exited with 127"),
        (HookRun(exit_code=0, stdout='{"decision": "de'), "invalid JSON"),
        (HookRun(exit_code=0, stdout='{"decision": "denny"}'), "unknown decision 'denny'"),
        (
            HookRun(exit_code=0, stdout='{"hook_specific_output": {"tool_input": "ls"}}'),
            "tool_input that is not a JSON",
        ),
    ],
)
def test_what_cannot_be_understood_is_no_verdict(run: HookRun, problem: str) -> None:
    with pytest.raises(HookBrokenError, match=problem):
        read_verdict(run)


def test_a_long_reason_is_cut() -> None:
    verdict = read_verdict(HookRun(exit_code=2, stderr="x" * 10_000))
    assert len(verdict.reason) < MAX_TEXT + 100
