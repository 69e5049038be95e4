"""EventLog: a run's events as lines of the log file: names and figures, never texts that were said or read."""

from __future__ import annotations

import logging
from typing import Final

from ipc.events import (
    AssistantDeltaEvent,
    ErrorEvent,
    Event,
    ReasoningDeltaEvent,
    ToolArgumentsEvent,
    ToolStreamEvent,
    WarningEvent,
)

TOLD: Final = (
    *(
        "plan_id",
        "step_id",
        "subagent_step_id",
        "subagent_id",
        "agent",
        "model",
        "tool",
        "tool_call_id",
        "rule",
    ),
    *("status", "previous", "outcome", "reason", "exit_code", "decision", "attempt", "finish_reason", "tool_calls"),
    *(
        "prompt_tokens",
        "completion_tokens",
        "cached_tokens",
        "cost_usd",
        "context_tokens",
        "tokens_after",
        "duration_s",
    ),
)
"""The fields that a line tells, where they say something; of reasons only the stable words, not the sentences."""
_TOO_MANY: Final = (AssistantDeltaEvent, ReasoningDeltaEvent, ToolArgumentsEvent, ToolStreamEvent)

logger = logging.getLogger(__name__)


class EventLog:
    """An ``EventSink``: errors and warnings in full, at their level; all else but pieces of answers at DEBUG."""

    def publish(self, event: Event) -> None:
        """Log the event at its level."""
        if isinstance(event, ErrorEvent):
            logger.error("%s: %s", event.code, event.message)
        elif isinstance(event, WarningEvent):
            logger.info("%s: %s", event.code, event.message)
        elif logger.isEnabledFor(logging.DEBUG) and not isinstance(event, _TOO_MANY):
            logger.debug("%s%s", event.__struct_config__.tag, _told(event))


def _told(event: Event) -> str:
    values = ((name, getattr(event, name, None)) for name in TOLD)
    return "".join(f" {name}={value!r}" for name, value in values if value and not (name == "reason" and " " in value))
