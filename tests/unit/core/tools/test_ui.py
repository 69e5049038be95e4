"""The wording of calls: the tool's own if it has one, else one made from the call."""

from __future__ import annotations

from tests.fakes.tools import Peek, SaveArgs
from vibe.core.tools.base import BaseToolState, TextResult
from vibe.core.tools.ui import (
    ToolCallDisplay,
    ToolCallView,
    ToolResultDisplay,
    ToolResultView,
    ToolUIData,
    call_summary,
)


class Worded(Peek, ToolUIData[SaveArgs, TextResult]):
    """Words its calls itself."""

    @classmethod
    def get_call_display(cls, event: ToolCallView) -> ToolCallDisplay:
        return ToolCallDisplay(
            summary=f"Looking at {event.args.path}" if isinstance(event.args, SaveArgs) else "Looking"
        )

    @classmethod
    def get_result_display(cls, event: ToolResultView) -> ToolResultDisplay:
        found = event.result.text if isinstance(event.result, TextResult) else "?"
        return ToolResultDisplay(success=True, message=f"Saw {found}", warnings=["small"])

    @classmethod
    def get_status_text(cls) -> str:
        return "Looking"


WORDED = Worded.from_config(Worded.config_class()())
PLAIN = Peek(Peek.config_class()(), BaseToolState())  # pyright: ignore[reportArgumentType]  its own config class
CALL = ToolCallView(tool_name="t", tool_call_id="c", args=SaveArgs(path="a.txt"))


def test_a_tool_words_its_own_calls() -> None:
    assert isinstance(WORDED, ToolUIData)
    assert call_summary(WORDED, CALL, "default") == "Looking at a.txt"


def test_a_tool_without_words_of_its_own_gets_plain_ones() -> None:
    assert not isinstance(PLAIN, ToolUIData)
    assert call_summary(PLAIN, CALL, "default") == "default"
