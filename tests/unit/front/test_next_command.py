"""The command that continues a stopped plan: a shell command in the shell, a slash command in a conversation."""

from __future__ import annotations

import pytest

from ipc.events import ApprovalRequestEvent
from planner.plan.model import Decision
from vibe.core.messages import Outcome
from vibe.front.next_command import decision_lines, hint, try_again


def decision(*, several: bool) -> Decision:
    options = [{"id": "sqlite", "label": "SQLite"}, {"id": "files", "label": "Files", "description": "one a list"}]
    return Decision.model_validate({"id": "db", "question": "Which?", "options": options, "multi_select": several})


@pytest.mark.parametrize(
    ("in_chat", "several", "command"),
    [
        (False, False, "vibe plan decide p db OPTION"),
        (False, True, "vibe plan decide p db OPTION..."),
        (True, False, "/plan decide db OPTION"),
        (True, True, "/plan decide db OPTION,..."),
    ],
)
def test_an_open_decision_says_what_to_type_where_it_is_read(*, in_chat: bool, several: bool, command: str) -> None:
    assert decision_lines("p", [decision(several=several)], in_chat=in_chat) == [
        "decision db: Which?",
        "  sqlite  SQLite",
        "  files   Files: one a list",
        f"  decide with: {command}",
    ]


def test_after_a_failure_a_conversation_names_its_own_commands() -> None:
    assert try_again("p", ["a"], Outcome.FAILED) == ["try again with: vibe plan retry p a, then vibe plan resume p"]
    assert try_again("p", ["a"], Outcome.FAILED, in_chat=True) == [
        "try again with: /retry a, or go on without it: /skip a"
    ]
    several, more = try_again("p", ["a", "b"], Outcome.LIMIT, in_chat=True)
    assert several.startswith("try again with: /retry STEP, or go on without it: /skip STEP (")
    assert "/plan edit" in more
    [of_a_list] = try_again("p", ["fix", "fix-0a1b2c3d", "fix-4e5f6071"], Outcome.FAILED)
    assert "vibe plan retry p fix," in of_a_list


def test_a_request_that_nobody_here_answers_says_who_asks_for_what() -> None:
    request = ApprovalRequestEvent(
        request_id="0123456789", tool_call_id="c", tool="bash", arguments={"command": "make"}, summary="bash make",
        rule="permission", plan_id="p", subagent_id="x", subagent_step_id="receipt",
    )  # fmt: skip
    assert hint(request) == (
        '[receipt] asks: bash {"command": "make"}\n  answer with: vibe plan approve p 01234567 [--deny]\n'
    )
