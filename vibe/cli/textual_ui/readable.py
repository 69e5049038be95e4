"""Raises the contrast of a theme's text colours, and adapts styles and signs to simple terminals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from rich.segment import Segment
from rich.style import Style
from textual.color import BLACK, WHITE, Color, ColorParseError
from textual.filter import LineFilter

from vibe.front.cells import SPINNER

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
