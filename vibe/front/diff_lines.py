"""DiffLine: one line of a unified diff with its line numbers, for every place where a diff is shown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from vibe.system.plain_text import plain

SIGNS: Final = {"+": ("added", "done"), "-": ("removed", "failed"), " ": ("", "")}
"""The background of a line and the colour of its sign, by sign."""
_HUNK: Final = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?")
_NOTHING: Final = "/dev/null"
_TAB: Final = 4


class DiffLine(Struct, frozen=True):
    """A line of a diff.

    ``sign`` is ``-``, ``+``, or a blank for a line in both texts. A line of neither text has ``@`` if it names a file,
    and ``""`` if it is a note. ``old`` and ``new`` are line numbers, 0 where there is none.
    """

    sign: str
    text: str
    old: int = 0
    new: int = 0

    @property
    def number(self) -> str:
        """Its line number, padded for display: that in the new text if it is in both."""
        return f"{self.new or self.old or '':>5} "


def diff_lines(diff: str) -> Iterator[DiffLine]:
    """Yield the lines of a diff; text that is no diff becomes notes."""
    lines = plain(diff).removesuffix("\n").split("\n")
    old = new = old_left = new_left = 0
    for at, line in enumerate(lines):
        if old_left <= 0 and new_left <= 0 and not line.startswith("\\"):
            hunk = _HUNK.match(line)
            if hunk is not None:
                old, new = int(hunk[1]), int(hunk[3])
                old_left, new_left = int(hunk[2] or 1), int(hunk[4] or 1)
            yield from _outside(lines, at)
            continue
        sign = line[:1] or " "
        if sign == "\\":
            yield DiffLine("", line)
            continue
        is_old, is_new = sign != "+", sign != "-"
        yield DiffLine(sign if sign in SIGNS else " ", line[1:].expandtabs(_TAB), old * is_old, new * is_new)
        old, old_left = old + is_old, old_left - is_old
        new, new_left = new + is_new, new_left - is_new


def _outside(lines: Sequence[str], at: int) -> Iterator[DiffLine]:
    """Yield what to show for a line between hunks; a file's header only when it is complete."""
    line, before = lines[at], lines[at - 1] if at else ""
    hunk = _HUNK.match(line)
    if hunk is not None:
        where = line[hunk.end() :]
        if where or not before.startswith("+++ "):
            yield DiffLine("", f"⋮ {where}".rstrip())
    elif line.startswith("+++ ") and before.startswith("--- "):
        yield DiffLine("@", _name(before[4:], line[4:]))
    elif not (line.startswith("--- ") and lines[at + 1 : at + 2] and lines[at + 1].startswith("+++ ")):
        yield DiffLine("", line)


def _name(old: str, new: str) -> str:
    """Return a file's name, and whether it was created, deleted or renamed."""
    was, now = (each.partition("\t")[0] for each in (old, new))
    if was == _NOTHING:
        return f"{now.removeprefix('b/')} (new)"
    if now == _NOTHING:
        return f"{was.removeprefix('a/')} (deleted)"
    was, now = was.removeprefix("a/"), now.removeprefix("b/")
    return now if was == now else f"{now} (was {was})"
