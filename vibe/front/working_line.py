"""Draws the working line: what an agent is doing and for how long, what streams in, and any silence, in one row."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from vibe.front.cells import SPINNER, Line, cells_of, spread
from vibe.system.plain_text import one_line
from vibe.view.agent_view import VERBS, AgentView, CallView
from vibe.view.figures import clock, short

QUIET_S: Final = 10.0
"""Seconds without a byte after which the line says so."""
CHARACTERS_PER_TOKEN: Final = 4
"""An approximation, because providers count tokens only once an answer is complete."""
LEAST_STREAM_S: Final = 1.0
"""Seconds that a stream must last before its speed is shown."""
COMMANDS: Final = frozenset({"bash", "shell"})
"""Tools that are expected to print output while they run."""
PROPOSE: Final = "propose_plan"
"""The tool that waits for a person's verdict on a plan."""
LONGEST: Final = 200
SPARED_FIRST: Final = ("speed", "tokens", "back", "keys", "time")
"""Parts to drop, in this order, where the line is too short for all of them."""
STOP: Final = "Esc stops"
SEND_BACK: Final = " · F8 to the background"


class CurrentWork(Struct, frozen=True, kw_only=True):
    """Something that an agent is doing.

    ``since`` is when it began and ``heard_at`` when something last came from it, both in unix seconds; ``heard_at`` is
    None where no output is expected. ``goes_back`` means that it can be sent to the background. ``streamed`` counts the
    characters that the model sent within ``streaming_s`` seconds.
    """

    words: str
    since: float
    heard_at: float | None = None
    is_command: bool = False
    goes_back: bool = False
    streamed: int = 0
    streaming_s: float = 0.0


def work_of(agent: AgentView) -> CurrentWork | None:
    """Return what an agent is doing, or None if it does nothing or waits for a person."""
    calls = [call for call in agent.open_calls.values() if call.status == "running" and not call.will_ask]
    if calls and calls[0].tool != PROPOSE:
        return _call(calls)
    if calls or agent.waits_for_you:
        return None
    if agent.awaits_model and agent.asked_at is not None:
        return _model(agent, agent.asked_at)
    if agent.prompt is None:
        return None
    words = agent.activity if agent.activity == "starting" else "working"
    return CurrentWork(words=words, since=max(agent.prompt.ts, agent.asked_at or 0.0))


def _call(calls: list[CallView]) -> CurrentWork:
    """Return the longest-running call, with the number of others beside it."""
    call = calls[0]
    more = f" and {len(calls) - 1} more" if len(calls) > 1 else ""
    is_command = call.tool in COMMANDS
    return CurrentWork(
        words=f"{VERBS.get(call.tool, call.tool)}{more}",
        since=call.began_at,
        heard_at=max(call.until, call.began_at) if is_command else None,
        is_command=is_command,
        goes_back=call.tool == "bash",
    )


def _model(agent: AgentView, asked_at: float) -> CurrentWork:
    first, last = agent.first_byte_at, agent.last_byte_at
    return CurrentWork(
        words="writing" if agent.writing is not None else agent.activity or "thinking",
        since=asked_at,
        heard_at=last or asked_at,
        streamed=agent.streamed,
        streaming_s=0.0 if first is None or last is None else last - first,
    )


def working_line(work: CurrentWork, now: float, cells: int, beat: int) -> Line:
    """Return the row at ``now`` (unix seconds) in exactly ``cells`` cells; ``beat`` selects the spinner's frame."""
    silence = _silence(work, now)
    parts = _parts(work, now, silence)
    keys = STOP + SEND_BACK * work.goes_back
    lead: Line = [(SPINNER[beat % len(SPINNER)], "accent"), (f" {one_line(work.words, LONGEST)}", "")]
    for spare in SPARED_FIRST:
        if cells_of([*lead, *parts.values()]) + len(keys) + 2 * bool(keys) <= cells:
            break
        parts.pop(spare, None)
        keys = {"back": STOP, "keys": ""}.get(spare, keys)
    return spread([*lead, *parts.values()], [(keys, "muted")] if keys else [], cells)


def _silence(work: CurrentWork, now: float) -> float:
    """Return the seconds since anything came, or 0 as long as they are few."""
    seconds = 0.0 if work.heard_at is None else now - work.heard_at
    return seconds if seconds >= QUIET_S else 0.0


def _parts(work: CurrentWork, now: float, silence: float) -> dict[str, tuple[str, str]]:
    parts: dict[str, tuple[str, str]] = {}
    if not silence or work.heard_at != work.since:  # otherwise both numbers are equal
        parts["time"] = (f" · {clock(now - work.since)}", "muted")
    tokens = work.streamed // CHARACTERS_PER_TOKEN
    if tokens:
        parts["tokens"] = (f" · ↓{short(tokens)}", "muted")
    if silence:
        nothing = "no output" if work.is_command else "nothing"
        parts["silence"] = (f" · {nothing} for {clock(silence)}", "warn")
    elif tokens and work.streaming_s >= LEAST_STREAM_S:
        parts["speed"] = (f" · ~{round(tokens / work.streaming_s)} tok/s", "muted")
    return parts
