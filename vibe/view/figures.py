"""Formats seconds, tokens and dollars for people."""

from __future__ import annotations

from typing import Final

from vibe.system.plain_text import date_text

WEEK_SECONDS: Final = 7 * 86_400


def took(seconds: float) -> str:
    """Return a finished duration: ``0.2 s``, ``36 s``, ``1:20``, ``1:02 h``."""
    return f"{seconds:.1f} s" if 0.05 <= seconds < 9.95 else clock(seconds)


def clock(seconds: float) -> str:
    """Return a running duration in whole seconds: ``8 s``, ``1:20``, ``1:02 h``."""
    whole = max(0, round(seconds) if seconds >= 9.95 else int(seconds))
    minutes, rest = divmod(whole, 60)
    hours, minutes_left = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes_left:02} h"
    return f"{minutes}:{rest:02}" if minutes else f"{whole} s"


def counter(seconds: float) -> str:
    """Return a duration that always shows its seconds: ``0:06``, ``1:20``, ``1:02:03``."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def short(count: int) -> str:
    """Return a number of tokens, in at most five characters up to a billion: ``950``, ``1.9k``, ``41k``, ``2.5M``."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if count >= size:
            return f"{count / size:.1f}{unit}" if count < 10 * size else f"{count // size}{unit}"
    return str(count)


def dollars(amount: float) -> str:
    """Return a price: ``$0.04``, ``$1,204.50``. Fractions of a cent show as ``<$0.01``, not as nothing."""
    return "<$0.01" if 0 < amount < 0.005 else f"${amount:,.2f}"


def spending(tokens: int, cost_usd: float | None) -> list[str]:
    """Return the tokens and the price that are known: ``12k tok`` and ``$0.03``."""
    return [*([f"{short(tokens)} tok"] if tokens else []), *([] if cost_usd is None else [dollars(cost_usd)])]


def roughly(seconds: float) -> str:
    """Return an estimated duration: ``23 s``, ``1.5 min``, ``12 min``, ``2 h``."""
    for size, unit in ((3_600, "h"), (60, "min")):
        if seconds >= 0.9 * size:
            halves = round(2 * seconds / size) / 2
            return f"{halves if halves < 10 else round(halves):g} {unit}"
    return f"{max(1, round(seconds))} s"


def ago(then: float, now: float) -> str:
    """Return how long ago something was, and after a week its local date. Both times are unix seconds."""
    seconds = now - then
    if seconds >= WEEK_SECONDS:
        return date_text(then, "%Y-%m-%d")
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return "now"
