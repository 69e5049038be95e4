"""The modes that one key steps through."""

from __future__ import annotations

import pytest

from vibe.cli.textual_ui.local_chat import mode_after
from vibe.core.agents.models import BUILTIN_AGENTS
from vibe.core.tools.permissions import ApprovalMode
from vibe.system.errors import UsageError

ASK, EDITS, ALL = ApprovalMode.ASK, ApprovalMode.EDITS, ApprovalMode.ALL


@pytest.mark.parametrize(
    ("agent", "approvals", "following"),
    [
        ("default", ASK, "accept-edits"),
        ("accept-edits", ASK, "plan"),
        ("plan", ASK, "default"),
        ("default", EDITS, "plan"),
        ("plan", EDITS, "default"),
        ("default", ALL, "default"),
        ("accept-edits", ALL, "default"),
        ("auto-approve", ALL, "default"),
        ("lean", ASK, "default"),
        ("lean", EDITS, "default"),
    ],
)
def test_a_key_goes_from_asks_to_accepts_edits_to_plan_mode_and_never_to_more(
    agent: str, approvals: ApprovalMode, following: str
) -> None:
    change = mode_after(agent, approvals, BUILTIN_AGENTS)

    assert (change.agent, change.approvals) == (following, ASK)


def test_a_mode_that_the_settings_leave_out_is_passed_over() -> None:
    assert mode_after("default", ASK, {"default", "plan", "lean"}).agent == "plan"
    assert mode_after("default", EDITS, {"default", "plan"}).agent == "default"
    with pytest.raises(UsageError, match="disabled_agents"):
        mode_after("lean", ASK, {"lean", "auto-approve"})
