"""Colours of text that can be read: a theme's own, moved away from its backgrounds until they stand out; or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from rich.segment import Segment
from rich.style import Style
from textual.color import BLACK, WHITE, Color, ColorParseError
from textual.filter import LineFilter

from vibe.front.cells import SPINNER

LEAST = 5.2
"""Contrast of a colour of text, by WCAG 2; strings of code are drawn at nine tenths of theirs, and still have 4.5."""
MOST_MUTED = 4.6
STEP = 0.05
TEXTS = ("text-primary", "text-secondary", "text-accent", "text-success", "text-warning", "text-error")
MUTED = "foreground-muted"
GROUNDS = ("background", "surface", "panel")
MEANINGS = frozenset({1, 2, 3, 6})
"""Colours of a terminal's palette: red, green, yellow and cyan."""
STILL = str.maketrans(SPINNER, "▸" * len(SPINNER))
"""The signs that turn, and one that stands still in their place."""
ASCII = str.maketrans(
    f"━╍┄╸╺✗✓▸▹›↓↑→←↻·•◦▪…▌│‖─├╰╭╮╯┬┴┼┤▏■█▓▒░◆◇◉⊘−–⋮▁▂▃▄▅▆▇{SPINNER}",  # noqa: RUF001  a minus
    f"=~-==x+>>>v^><~-*-*.|||-+++++++++|###:.*o@/--:       {'*' * len(SPINNER)}",
)
"""Our signs and those of Textual's scrollbars, and ASCII in their place."""
MARKING = 0.3
"""Of brightness, by which the ground of what is marked or under the cursor differs from that of the screen."""


class Restyled(LineFilter):
    """Shows all in other styles: those that ``restyle`` returns for a style and the colour behind the line."""

    def __init__(self, restyle: Callable[[Style, Color], Style]) -> None:
        super().__init__()
        self._restyle = restyle

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """See ``LineFilter``."""
        return [Segment(text, style and self._restyle(style, background), control) for text, style, control in segments]


@lru_cache(1024)
def groundless(style: Style, _background: Color) -> Style:
    """Leave out a ground that is one of the colours with a meaning: in a terminal's own palette none is faint."""
    ground = style.bgcolor
    is_loud = ground is not None and ground.number in MEANINGS
    return Style(color=style.color, bgcolor="default") + style.without_color if is_loud else style


class Signs(LineFilter):
    """Shows other signs in the place of ours, as a table says."""

    def __init__(self, table: Mapping[int, str | int]) -> None:
        super().__init__()
        self._table = table

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002  as in Textual
        """See ``LineFilter``."""
        return [Segment(text.translate(self._table), style, control) for text, style, control in segments]


@lru_cache(1024)
def uncoloured(style: Style, background: Color) -> Style:
    """Leave the terminal's own two colours; what only its ground told apart is reversed."""
    ground = None if style.bgcolor is None else Color.from_rich_color(style.bgcolor)
    marks = ground is not None and abs(ground.brightness - background.brightness) > MARKING
    return style.without_color + Style(reverse=True) if marks else style.without_color


def readable(variables: Mapping[str, str]) -> dict[str, str]:
    """Return a theme's variables with colours of text that stand out; those of the terminal's own palette stay."""
    grounds = [colour for name in GROUNDS if (colour := _colour(variables.get(name, ""))) is not None]
    if len(grounds) < len(GROUNDS):
        return dict(variables)
    wanted = {**dict.fromkeys(TEXTS, LEAST), MUTED: MOST_MUTED}
    found = {name: _colour(variables.get(name, "")) for name in wanted}
    return {
        **variables,
        **{name: _away(colour, grounds, wanted[name]).hex for name, colour in found.items() if colour is not None},
    }


def contrast(one: Color, other: Color) -> float:
    """Return the contrast of two opaque colours, by WCAG 2: from 1 to 21."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _away(colour: Color, grounds: list[Color], least: float) -> Color:
    """Return a colour, or one between it and black or white, that stands out from all grounds."""
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
