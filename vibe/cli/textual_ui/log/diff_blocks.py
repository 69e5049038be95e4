"""A unified diff as blocks: line numbers before the lines, which are coloured by what happened to them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from textual.content import Content

from vibe.cli.textual_ui.log.blocks import LogBlock, styled
from vibe.cli.textual_ui.log.clean import clean

_HUNK: Final = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_LOOKS: Final = {"+": "chat-log--added", "-": "chat-log--removed"}


def diff_blocks(diff: str) -> Iterator[LogBlock]:
    """Yield the lines of a diff of one or more files; what is no diff comes as it is."""
    old = new = old_left = new_left = 0
    for line in clean(diff).removesuffix("\n").split("\n"):
        if old_left <= 0 and new_left <= 0 and not line.startswith("\\"):
            hunk = _HUNK.match(line)
            if hunk is not None:
                old, new = int(hunk[1]), int(hunk[3])
                old_left, new_left = int(hunk[2] or 1), int(hunk[4] or 1)
            yield LogBlock(_outside(line), "     ", "     ")
            continue
        sign = line[:1] or " "
        number = new if sign == "+" else old
        if sign == "\\":
            yield LogBlock(styled(line, "$text-muted"), "     ", "     ")
            continue
        if sign != "+":
            old, old_left = old + 1, old_left - 1
        if sign != "-":
            number, new, new_left = new, new + 1, new_left - 1
        yield _line(sign, line[1:], number)


def _outside(line: str) -> Content:
    """A line between the hunks."""
    return styled(line, "bold" if line.startswith(("+++ ", "--- ")) else "$text-muted")


def _line(sign: str, text: str, number: int) -> LogBlock:
    look = _LOOKS.get(sign, "")
    before = f"{number:>4} "
    style = {"+": "$text-success", "-": "$text-error"}.get(sign, "")
    return LogBlock(styled(f"{sign}{text}", style), before, " " * len(before), look)
