"""What an attempt at a step has spent so far, as its conversations on disk tell it."""

from __future__ import annotations

from pathlib import Path

from subagents.local import subagents_name, transcript_name
from subagents.spawner import earlier_subagents
from subagents.subagent import total_usage
from vibe.core.messages import Usage
from vibe.core.session.transcript import Transcript, TranscriptError


def attempt_spending(step_folder: Path, attempt: int) -> tuple[Usage, float | None]:
    """Usage and USD (None: unknown) of the attempt's agents and the subagents they started; reads files."""
    usage, cost_usd = Usage(), 0.0
    unknown = False
    for conversation in ("", *_besides(step_folder, attempt)):
        used, cost = _conversation_spending(step_folder, attempt, conversation)
        usage += used
        cost_usd += cost or 0.0
        unknown = unknown or cost is None
    return usage, None if unknown else cost_usd


def _besides(step_folder: Path, attempt: int) -> list[str]:
    """The names of the conversations that an attempt has besides its own: those that resolve its merge conflicts."""
    stem = transcript_name(attempt).removesuffix(".jsonl")
    return [
        path.name.removeprefix(f"{stem}.").removesuffix(".jsonl") for path in step_folder.glob(f"{stem}.merge*.jsonl")
    ]


def _conversation_spending(step_folder: Path, attempt: int, name: str) -> tuple[Usage, float | None]:
    try:
        conversation = Transcript.peek(step_folder / transcript_name(attempt, name))
    except TranscriptError:
        return Usage(), 0.0  # the step that needs the conversation reports it
    usage, cost_usd = total_usage(earlier_subagents(step_folder / subagents_name(attempt, name), ""))
    unknown = conversation.cost_usd is None or cost_usd is None
    return conversation.usage + usage, None if unknown else (conversation.cost_usd or 0.0) + (cost_usd or 0.0)
