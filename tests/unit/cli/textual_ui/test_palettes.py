"""Our palettes: text is readable, amber marks only what needs a person, and one palette follows the terminal."""

from __future__ import annotations

import pytest
from textual.color import Color
from textual.theme import Theme

from vibe.cli.textual_ui.palettes import (
    DARK,
    GROUNDS,
    LIGHT,
    MUTED,
    SIXTEEN,
    TEXTS,
    contrast,
    follow_theme,
    has_few_colours,
    listed,
    parse_background,
    readable,
    seems_dark,
)

DIFF = 0.12
"""The share of the colours for added and removed lines in the background of a diff."""


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
def test_text_can_be_read_on_every_ground_and_in_diffs(theme: Theme) -> None:
    known = readable(theme.to_color_system().generate() | theme.variables)
    colours = {name: Color.parse(known[name]) for name in (*TEXTS, MUTED, *GROUNDS, "success", "error", "foreground")}
    ground = colours["background"]
    grounds = [colours[name] for name in GROUNDS]
    grounds += [ground.blend(colours[name], DIFF) for name in ("success", "error")]
    worst = {name: min(contrast(colours[name], each) for each in grounds) for name in (*TEXTS, MUTED, "foreground")}
    assert min(worst.values()) >= 4.5, worst


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
def test_what_is_chosen_or_at_work_has_no_colour_of_what_needs_a_person(theme: Theme) -> None:
    assert theme.accent == theme.primary
    assert theme.variables["text-accent"] == theme.variables["text-primary"] != theme.variables["text-warning"]
    assert theme.dark is (theme is DARK)


def test_a_palette_follows_what_the_terminal_says_of_itself() -> None:
    assert follow_theme(is_dark=False).background == LIGHT.background
    assert follow_theme(is_dark=True).variables == DARK.variables
    assert follow_theme(is_dark=True, has_few=True).variables == SIXTEEN.variables


@pytest.mark.parametrize(
    ("term", "told", "has_few"),
    [
        ("linux", "", True),
        ("xterm", "", True),
        ("screen", "", True),
        ("xterm", "truecolor", False),
        ("xterm-256color", "", False),
        ("", "", False),
    ],
)
def test_a_terminal_that_is_drawn_with_16_colours_has_our_palette_of_16(term: str, told: str, has_few: bool) -> None:  # noqa: FBT001  a case
    assert has_few_colours({"TERM": term, "COLORTERM": told}) is has_few
    assert parse_background("\x1b]10;rgb:0/0/0") is None
    assert parse_background("\x1b]11;rgb:zz/0/0") is None


@pytest.mark.parametrize(
    ("said", "is_dark"), [("", True), ("15;0", True), ("0;15", False), ("0;default;7", False), ("7;8", True)]
)
def test_a_terminal_that_says_nothing_is_dark_unless_its_variable_says_otherwise(
    said: str,
    is_dark: bool,  # noqa: FBT001  a parameter of the table
) -> None:
    assert seems_dark({"COLORFGBG": said}) is is_dark
    assert seems_dark({})


def test_with_16_colours_nothing_but_the_meanings_has_a_colour() -> None:
    known = readable(SIXTEEN.to_color_system().generate() | SIXTEEN.variables)
    meanings = {"primary": "cyan", "success": "green", "warning": "yellow", "error": "red"}

    assert {name: known[f"text-{name}"] for name in meanings} == {
        name: f"ansi_{colour}" for name, colour in meanings.items()
    }
    assert {known[name] for name in (MUTED, "foreground", *GROUNDS)} <= {"ansi_default", "transparent"}


def test_ours_are_offered_first() -> None:
    assert listed(["nord", "vibe-light", "follow", "dracula", "vibe-dark"]) == [
        "follow", "vibe-dark", "vibe-light", "dracula", "nord",
    ]  # fmt: skip
