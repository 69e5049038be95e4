"""Our two palettes as themes, and ``follow``: the one of them that fits the background of the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from textual.color import Color
from textual.message import Message
from textual.theme import BUILTIN_THEMES, Theme

FOLLOW: Final = "follow"
"""The theme that takes after the terminal."""


def _spelt_out(theme: Theme, muted: str) -> Theme:
    """The theme with one blue for accent and primary: amber is for nothing but a person who is needed, and silence."""
    texts = {"primary": theme.primary, "accent": theme.primary, "secondary": muted}
    texts |= {"success": str(theme.success), "warning": str(theme.warning), "error": str(theme.error)}
    variables = {
        **theme.variables,
        "foreground-muted": muted,
        **{f"text-{meaning}": colour for meaning, colour in texts.items()},
    }
    return replace(theme, accent=theme.primary, secondary=muted, variables=variables)


DARK: Final = _spelt_out(
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
LIGHT: Final = _spelt_out(
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
SIXTEEN: Final = _spelt_out(
    replace(BUILTIN_THEMES["ansi-dark"], name="16-colours", primary="ansi_cyan"), muted="ansi_default"
)
"""The terminal's own colours: its two, and four of its palette for the meanings; all else is told by bold text."""
OURS: Final = (FOLLOW, DARK.name, LIGHT.name, SIXTEEN.name)
_OF_MANY_COLOURS: Final = frozenset({"256color", "kitty"})
"""Ends of the names of terminals, in ``TERM``, that have more than 16."""
_LIGHT_OF_16: Final = frozenset({"7", *map(str, range(9, 16))})
"""Colours of a terminal's own palette on which dark text is read."""


@dataclass
class BackgroundTold(Message):
    """The terminal has said whether its background is dark."""

    is_dark: bool


ASK_BACKGROUND: Final = "\x1b]11;?\x1b\\"
"""Has a terminal say its background; those that don't know it say nothing."""
BACKGROUND: Final = "\x1b]11;"
"""The beginning of the answer."""
_COLOUR: Final = re.compile(r"\x1b\]11;rgba?:([0-9a-f]{1,4})/([0-9a-f]{1,4})/([0-9a-f]{1,4})", re.IGNORECASE)


def background_told(answer: str) -> BackgroundTold | None:
    """Return what an answer of the terminal says; None: it is another, or no colour."""
    found = _COLOUR.match(answer)
    if found is None:
        return None
    red, green, blue = (round(int(part, 16) / (16 ** len(part) - 1) * 255) for part in found.groups())
    return BackgroundTold(is_dark=Color(red, green, blue).brightness < 0.5)


def seems_dark(environ: Mapping[str, str]) -> bool:
    """Return whether a terminal that says nothing itself is taken for a dark one, by ``COLORFGBG``."""
    return environ.get("COLORFGBG", "").rpartition(";")[2] not in _LIGHT_OF_16


def has_few_colours(environ: Mapping[str, str]) -> bool:
    """Return whether a terminal has 16 colours at most: so it is drawn then, whatever it could do."""
    term = environ.get("TERM", "")
    is_rich = environ.get("COLORTERM", "").strip().lower() in {"truecolor", "24bit"}
    return bool(term) and not is_rich and term.rpartition("-")[2] not in _OF_MANY_COLOURS


def following(*, is_dark: bool, has_few: bool = False) -> Theme:
    """Return the theme ``follow`` for a terminal; ``has_few``: 16 colours at most."""
    own = DARK if is_dark else LIGHT
    return replace(SIXTEEN if has_few else own, name=FOLLOW)


def listed(names: Iterable[str]) -> list[str]:
    """Return names of themes in the order in which they are offered: ours first."""
    return sorted(names, key=lambda name: (OURS.index(name) if name in OURS else len(OURS), name))
