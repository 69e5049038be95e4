"""Text of every theme is readable on its backgrounds."""

from __future__ import annotations

import pytest
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme

from tests.architecture.project import ROOT
from vibe.cli.textual_ui.palettes import (
    ASCII,
    DARK,
    GROUNDS,
    LIGHT,
    MUTED,
    STILL,
    TEXTS,
    SignFilter,
    StyleFilter,
    contrast,
    groundless,
    readable,
    uncoloured,
)

OWN_PALETTE = [name for name in BUILTIN_THEMES if "ansi" in name]
"""Themes whose colours are the terminal's."""


@pytest.mark.parametrize("name", [name for name in BUILTIN_THEMES if name not in OWN_PALETTE])
def test_colours_of_text_stand_out_from_each_background(name: str) -> None:
    before = BUILTIN_THEMES[name].to_color_system().generate() | BUILTIN_THEMES[name].variables
    variables = {key: Color.parse(value) for key, value in readable(before).items() if key in {*TEXTS, MUTED, *GROUNDS}}
    worst = {text: min(contrast(variables[text], variables[ground]) for ground in GROUNDS) for text in (*TEXTS, MUTED)}
    assert min(worst.values()) >= 4.5, worst


@pytest.mark.parametrize("name", OWN_PALETTE)
def test_the_terminals_own_colours_stay(name: str) -> None:
    before = BUILTIN_THEMES[name].to_color_system().generate() | BUILTIN_THEMES[name].variables
    after = readable(before)
    assert [after[text] for text in TEXTS] == [before[text] for text in TEXTS]


def test_what_stands_out_already_stays_and_black_on_white_is_the_most() -> None:
    theme = BUILTIN_THEMES["textual-dark"]
    before = theme.to_color_system().generate() | theme.variables
    assert readable(before)["text-accent"] == before["text-accent"]
    assert contrast(Color(0, 0, 0), Color(255, 255, 255)) == pytest.approx(21.0)


def test_in_ascii_every_sign_has_one_character_of_its_own_width() -> None:
    (shown,) = SignFilter(ASCII).apply([Segment("✗ total ━━╍┄ ⠙ ▸ ü")], Color(0, 0, 0))

    assert shown.text == "x total ==~- * > ü"
    assert all(cell_len(chr(sign)) == 1 and chr(other).isascii() for sign, other in ASCII.items())


def test_in_ascii_every_sign_that_we_draw_has_another_and_so_have_the_ends_of_a_scrollbar() -> None:
    sources = [path for folder in ("front", "cli/textual_ui") for path in (ROOT / "vibe" / folder).rglob("*.py")]
    drawn = {*"▁▂▃▄▅▆▇", *(sign for path in sources for sign in path.read_text(encoding="utf-8"))}

    assert [sign for sign in sorted(drawn) if not sign.translate(ASCII).isascii()] == []


@pytest.mark.parametrize("theme", [DARK, LIGHT])
def test_without_colours_a_selection_is_seen_and_the_grounds_of_a_diff_are_not(theme: Theme) -> None:
    colours = theme.to_color_system().generate()
    ground, selected, done, failed = (
        Color.parse(colours[name]) for name in ("surface", "input-selection-background", "success", "error")
    )
    faint = [ground.blend(done, 0.12), ground.blend(failed, 0.12)]
    on = [Style(bgcolor=each.rich_color) for each in (ground + selected, *faint)]
    assert [bool(uncoloured(style, ground).reverse) for style in on] == [True, False, False]


def test_without_motion_nothing_turns() -> None:
    shown = [SignFilter(STILL).apply([Segment(f"{turning} bash · 21 s")], Color(0, 0, 0))[0].text for turning in "⠋⠙⠹"]

    assert shown == ["▸ bash · 21 s"] * 3


def test_in_a_terminals_own_palette_a_diff_has_no_ground_and_a_mark_keeps_its() -> None:
    styles = [Style.parse("green on green"), Style.parse("bold red"), Style.parse("black on white")]
    shown = StyleFilter(groundless).apply([Segment("text", style) for style in styles], Color(0, 0, 0))

    assert [segment.style for segment in shown] == [Style.parse("green on default"), *styles[1:]]
