"""The page's files: small, readable, and with no way to turn text into markup."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

FOLDER = files("vibe.dashboard").joinpath("page")
TEXTS = {file.name: file.read_text(encoding="utf-8") for file in FOLDER.iterdir()}
MOST_BYTES, MOST_COLUMNS = 101_393, 120
MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|\beval\b|new Function"
)
ELSEWHERE = re.compile(r"https?://(?!www\.w3\.org/2000/svg)|[\"'`]/[?\w]")
"""Addresses of other hosts, and those that a proxy which serves the page below a path of its own would not pass on."""


def test_all_of_it_is_small() -> None:
    assert sum(len(text.encode()) for text in TEXTS.values()) <= MOST_BYTES


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_a_file_is_readable_and_takes_nothing_from_elsewhere(name: str) -> None:
    text = TEXTS[name]
    if not name.endswith(".svg"):
        assert [line for line in text.splitlines() if len(line) > MOST_COLUMNS] == []
    assert MARKUP.findall(text) == []
    assert ELSEWHERE.findall(text) == []
