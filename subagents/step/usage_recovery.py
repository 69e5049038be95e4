"""The usage of an attempt at a step so far, as its conversations on disk tell it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from subagents.agent.subagent import earlier_subagents
from subagents.step.local_executor import subagents_name, transcript_name
from vibe.core.messages import Spending, Spent, total_of
from vibe.core.session.transcript import Transcript, TranscriptError


def attempt_spending(step_folder: Path, attempt: int) -> Spending:
    """Usage and USD (None: unknown) of the attempt's agents and the subagents they started; reads files."""
    names = ("", *_besides(step_folder, attempt))
    return total_of(spent for name in names for spent in _conversation_spending(step_folder, attempt, name))


def _besides(step_folder: Path, attempt: int) -> list[str]:
    """The names of the conversations that an attempt has besides its own: those that resolve its merge conflicts."""
    stem = transcript_name(attempt).removesuffix(".jsonl")
    return [
        path.name.removeprefix(f"{stem}.").removesuffix(".jsonl") for path in step_folder.glob(f"{stem}.merge*.jsonl")
    ]


def _conversation_spending(step_folder: Path, attempt: int, name: str) -> Iterator[Spent]:
    try:
        yield Transcript.peek(step_folder / transcript_name(attempt, name))
    except TranscriptError:
        return  # the step that needs the conversation reports it
    yield from earlier_subagents(step_folder / subagents_name(attempt, name), "")
