"""A unified diff as blocks: line numbers before the lines, which are coloured by what happened to them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from vibe.cli.textual_ui.log.blocks import LogBlock, styled
from vibe.cli.textual_ui.log.clean import clean

_HUNK: Final = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?")
_LOOKS: Final = {"+": "chat-log--added", "-": "chat-log--removed"}
_NOTHING: Final = "/dev/null"
_MARGIN: Final = "     "


def diff_blocks(diff: str) -> Iterator[LogBlock]:
    """Yield the lines of a diff of one or more files; what is no diff comes as it is.

    A file has its name above its lines, unless it is the only one and was there before: the call says which it is.
    """
    lines = list(_lines(clean(diff).removesuffix("\n").split("\n")))
    names = [line for line in lines if isinstance(line, str)]
    is_told = len(names) == 1 and not names[0].endswith(")")
    for line in lines:
        if isinstance(line, LogBlock):
            yield line
        elif not is_told:
            yield LogBlock(styled(line, "bold"), _MARGIN, _MARGIN)


def _lines(lines: Sequence[str]) -> Iterator[LogBlock | str]:
    """Yield lines, and the names of files."""
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
        number = new if sign == "+" else old
        if sign == "\\":
            yield LogBlock(styled(line, "$foreground-muted"), _MARGIN, _MARGIN)
            continue
        if sign != "+":
            old, old_left = old + 1, old_left - 1
        if sign != "-":
            number, new, new_left = new, new + 1, new_left - 1
        yield _line(sign, line[1:], number)


def _outside(lines: Sequence[str], at: int) -> Iterator[LogBlock | str]:
    """Yield what is said of a line between the lines that changed: of the first head of a file only where it is."""
    line, before = lines[at], lines[at - 1] if at else ""
    hunk = _HUNK.match(line)
    if hunk is not None:
        where = line[hunk.end() :]
        if where or not before.startswith("+++ "):
            yield LogBlock(styled(f"⋮ {where}".rstrip(), "$foreground-muted"), _MARGIN, _MARGIN)
    elif line.startswith("+++ ") and before.startswith("--- "):
        yield _name(before[4:], line[4:])
    elif not (line.startswith("--- ") and lines[at + 1 : at + 2] and lines[at + 1].startswith("+++ ")):
        yield LogBlock(styled(line, "$foreground-muted"), _MARGIN, _MARGIN)


def _name(old: str, new: str) -> str:
    """The name of a file, and what became of it besides a change."""
    was, now = (each.partition("\t")[0] for each in (old, new))
    if was == _NOTHING:
        return f"{now.removeprefix('b/')} (new)"
    if now == _NOTHING:
        return f"{was.removeprefix('a/')} (deleted)"
    was, now = was.removeprefix("a/"), now.removeprefix("b/")
    return now if was == now else f"{now} (was {was})"


def _line(sign: str, text: str, number: int) -> LogBlock:
    look = _LOOKS.get(sign, "")
    before = f"{number:>4} "
    style = {"+": "$text-success", "-": "$text-error"}.get(sign, "")
    return LogBlock(styled(f"{sign}{text}", style), before, " " * len(before), look)
