"""Text of every theme can be read on its backgrounds."""

from __future__ import annotations

import pytest
from textual.color import Color
from textual.theme import BUILTIN_THEMES

from vibe.cli.textual_ui.readable import GROUNDS, MUTED, TEXTS, contrast, readable

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
