from __future__ import annotations

import pytest

from subagents.agent.tool_policy import step_tools
from vibe.core.modes import ExecutionMode


@pytest.mark.parametrize("mode", ExecutionMode)
def test_every_mode_has_the_harmless_tools_of_a_program(mode: ExecutionMode) -> None:
    allowed, _ = step_tools(mode, harmless=("lookup",))

    assert "lookup" in allowed


def test_a_step_s_own_list_is_all_it_has() -> None:
    assert step_tools(ExecutionMode.RESEARCH, ("grep",), harmless=("lookup",))[0] == ("grep",)
