"""Our palettes as themes, the theme ``follow`` that fits the terminal's background, and what makes text readable.

Contrast is raised where a theme has too little, and styles and signs are adapted to simple terminals.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from rich.segment import Segment
from rich.style import Style
from textual.color import BLACK, WHITE, Color, ColorParseError
from textual.filter import LineFilter
from textual.message import Message
from textual.theme import BUILTIN_THEMES, Theme

from vibe.front.cells import SPINNER

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


# --- contrast, and simple terminals

LEAST_CONTRAST = 5.2
"""The lowest contrast of a text colour, by WCAG 2.

Strings in code are drawn at nine tenths of it, which leaves them more than 4.5.
"""
LEAST_MUTED_CONTRAST = 4.6
"""The lowest contrast of muted text."""
STEP = 0.05
"""The share by which a colour moves towards black or white per try."""
TEXTS = ("text-primary", "text-secondary", "text-accent", "text-success", "text-warning", "text-error")
MUTED = "foreground-muted"
GROUNDS = ("background", "surface", "panel")
MEANINGS = frozenset({1, 2, 3, 6})
"""Numbers of the colours that have a meaning in a terminal's palette: red, green, yellow and cyan."""
STILL = str.maketrans(SPINNER, "▸" * len(SPINNER))
"""Replaces the frames of the spinner by one sign that stands still."""
ASCII = str.maketrans(
    f"━╍┄╸╺✗✓▸▹›↓↑→←↻·•◦▪…▌│‖─├╰╭╮╯┬┴┼┤▏■█▓▒░◆◇◉⊘−–⋮▁▂▃▄▅▆▇{SPINNER}",  # noqa: RUF001  a minus
    f"=~-==x+>>>v^><~-*-*.|||-+++++++++|###:.*o@/--:       {'*' * len(SPINNER)}",
)
"""Replaces our signs, and those of Textual's scrollbars, by ASCII."""
MARK_DIFFERENCE = 0.2
"""The difference in brightness from which a background counts as a mark, a selection or a cursor."""


class StyleFilter(LineFilter):
    """Changes every style to the one that ``restyle`` returns for it and the background colour of the line."""

    def __init__(self, restyle: Callable[[Style, Color], Style]) -> None:
        super().__init__()
        self._restyle = restyle

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """See ``LineFilter``."""
        return [Segment(text, style and self._restyle(style, background), control) for text, style, control in segments]


@lru_cache(1024)
def groundless(style: Style, _background: Color) -> Style:
    """Remove a background in a colour with a meaning: in a terminal's own palette, none of them is faint."""
    ground = style.bgcolor
    is_loud = ground is not None and ground.number in MEANINGS
    return Style(color=style.color, bgcolor="default") + style.without_color if is_loud else style


class SignFilter(LineFilter):
    """Replaces signs by others, using a table as of ``str.maketrans``."""

    def __init__(self, table: Mapping[int, str | int]) -> None:
        super().__init__()
        self._table = table

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002  as in Textual
        """See ``LineFilter``."""
        return [Segment(text.translate(self._table), style, control) for text, style, control in segments]


@lru_cache(1024)
def uncoloured(style: Style, background: Color) -> Style:
    """Remove all colours; text that only its background set apart is reversed."""
    ground = None if style.bgcolor is None else Color.from_rich_color(style.bgcolor)
    marks = ground is not None and abs(ground.brightness - background.brightness) > MARK_DIFFERENCE
    return style.without_color + Style(reverse=True) if marks else style.without_color


GROUNDLESS: Final = StyleFilter(groundless)
UNCOLOURED: Final = StyleFilter(uncoloured)


def readable(variables: Mapping[str, str]) -> dict[str, str]:
    """Return a theme's variables with text colours of enough contrast; the terminal's own colours stay as they are."""
    grounds = [colour for name in GROUNDS if (colour := _colour(variables.get(name, ""))) is not None]
    if len(grounds) < len(GROUNDS):
        return dict(variables)
    wanted = {**dict.fromkeys(TEXTS, LEAST_CONTRAST), MUTED: LEAST_MUTED_CONTRAST}
    found = {name: _colour(variables.get(name, "")) for name in wanted}
    return {
        **variables,
        **{name: _distinct(colour, grounds, wanted[name]).hex for name, colour in found.items() if colour is not None},
    }


def contrast(one: Color, other: Color) -> float:
    """Return the contrast of two opaque colours, by WCAG 2: from 1 to 21."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _distinct(colour: Color, grounds: list[Color], least: float) -> Color:
    """Move a colour towards black or white until its contrast with every background is at least ``least``."""
    opaque = (grounds[1] + colour).rgb
    colour = Color(*opaque)
    end = BLACK if _luminance(grounds[0]) > _luminance(colour) else WHITE
    shares = [share * STEP for share in range(round(1 / STEP) + 1)]
    tried = (colour.blend(end, share) for share in shares)
    return next((one for one in tried if min(contrast(one, ground) for ground in grounds) >= least), end)


def _colour(text: str) -> Color | None:
    try:
        colour = Color.parse(text)
    except ColorParseError:
        return None
    return None if colour.ansi is not None else colour


def _luminance(colour: Color) -> float:
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour.normalized
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
