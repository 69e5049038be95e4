"""Our palettes as themes, and the theme ``follow``, which is the one that fits the terminal's background."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from textual.color import Color
from textual.message import Message
from textual.theme import BUILTIN_THEMES, Theme

FOLLOW: Final = "follow"
"""The name of the theme that adapts to the terminal."""


def _completed(theme: Theme, muted: str) -> Theme:
    """Complete a theme, with the primary colour as its accent.

    Amber is kept for two things: a person is needed, or an agent has gone silent.
    """
    texts = {"primary": theme.primary, "accent": theme.primary, "secondary": muted}
    texts |= {"success": str(theme.success), "warning": str(theme.warning), "error": str(theme.error)}
    variables = {
        **theme.variables,
        "foreground-muted": muted,
        **{f"text-{meaning}": colour for meaning, colour in texts.items()},
    }
    return replace(theme, accent=theme.primary, secondary=muted, variables=variables)


DARK: Final = _completed(
    Theme(
        name="vibe-dark",
        dark=True,
        background="#0e1116",
        surface="#171b22",
        panel="#1f242c",
        foreground="#d9dee7",
        primary="#80bafd",
        success="#80c48c",
        warning="#f6c364",
        error="#f9848c",
    ),
    muted="#8a94a3",
)
LIGHT: Final = _completed(
    Theme(
        name="vibe-light",
        dark=False,
        background="#fbfbf9",
        surface="#f1f1ed",
        panel="#e8e8e3",
        foreground="#24272c",
        primary="#0057b3",
        success="#11682a",
        warning="#865804",
        error="#b81622",
    ),
    muted="#5f6670",
)
SIXTEEN: Final = _completed(
    replace(BUILTIN_THEMES["ansi-dark"], name="16-colours", primary="ansi_cyan"), muted="ansi_default"
)
"""The terminal's own colours: foreground, background, and four of its palette with a meaning; bold does the rest."""
OWN: Final = (DARK, LIGHT, SIXTEEN)
OURS: Final = (FOLLOW, DARK.name, LIGHT.name, SIXTEEN.name)
_OF_MANY_COLOURS: Final = frozenset({"256color", "kitty"})
"""The last part of ``TERM`` for terminals that have more than 16 colours."""
_LIGHT_OF_16: Final = frozenset({"7", *map(str, range(9, 16))})
"""Numbers of the palette's colours that are light backgrounds."""


@dataclass
class BackgroundReported(Message):
    """Posted when the terminal has reported whether its background is dark."""

    is_dark: bool


ASK_BACKGROUND: Final = "\x1b]11;?\x1b\\"
"""Asks the terminal for its background colour; terminals that don't support this don't answer."""
BACKGROUND: Final = "\x1b]11;"
"""The beginning of the answer to ``ASK_BACKGROUND``."""
_COLOUR: Final = re.compile(r"\x1b\]11;rgba?:([0-9a-f]{1,4})/([0-9a-f]{1,4})/([0-9a-f]{1,4})", re.IGNORECASE)


def parse_background(answer: str) -> BackgroundReported | None:
    """Parse a terminal's answer; return None if it is some other answer or holds no colour."""
    found = _COLOUR.match(answer)
    if found is None:
        return None
    red, green, blue = (round(int(part, 16) / (16 ** len(part) - 1) * 255) for part in found.groups())
    return BackgroundReported(is_dark=Color(red, green, blue).brightness < 0.5)


def seems_dark(environ: Mapping[str, str]) -> bool:
    """Guess from ``COLORFGBG`` whether the terminal is dark, for as long as it has not answered itself."""
    return environ.get("COLORFGBG", "").rpartition(";")[2] not in _LIGHT_OF_16


def has_few_colours(environ: Mapping[str, str]) -> bool:
    """Return whether ``TERM`` and ``COLORTERM`` promise no more than 16 colours."""
    term = environ.get("TERM", "")
    is_rich = environ.get("COLORTERM", "").strip().lower() in {"truecolor", "24bit"}
    return bool(term) and not is_rich and term.rpartition("-")[2] not in _OF_MANY_COLOURS


def follow_theme(*, is_dark: bool, has_few: bool = False) -> Theme:
    """Return the theme ``follow`` for a terminal; ``has_few`` if it has at most 16 colours."""
    own = DARK if is_dark else LIGHT
    return replace(SIXTEEN if has_few else own, name=FOLLOW)


def listed(names: Iterable[str]) -> list[str]:
    """Return theme names in the order in which they are offered: ours first, the others by name."""
    return sorted(names, key=lambda name: (OURS.index(name) if name in OURS else len(OURS), name))
