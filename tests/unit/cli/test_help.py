"""Covers the help of ``vibe.cli.grammar``."""

from __future__ import annotations

import pytest

from vibe.cli.environment import Arguments
from vibe.cli.grammar import GRAMMAR, read_words
from vibe.cli.parser import TextRequested


@pytest.mark.parametrize("line", ["", *GRAMMAR])
def test_help_fits_eighty_columns(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    with pytest.raises(TextRequested) as shown:
        read_words([*line.split(), "--help"], Arguments())

    assert [long for long in shown.value.text.splitlines() if len(long) > 80] == []


@pytest.mark.parametrize("line", GRAMMAR)
def test_help_says_what_the_command_does(line: str) -> None:
    with pytest.raises(TextRequested) as shown:
        read_words([*line.split(), "--help"], Arguments())

    about = GRAMMAR[line].about
    _, described, *_ = shown.value.text.split("\n\n")
    assert " ".join(described.split()) == f"{about[0].upper()}{about[1:]}."
