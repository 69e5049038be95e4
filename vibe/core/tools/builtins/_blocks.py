"""SEARCH/REPLACE blocks: read from text, applied to text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from vibe.core.tools.builtins._closest import LEAST_SIMILAR, closest_place, find_equal
from vibe.core.tools.errors import ToolError

START = re.compile(r"(<{5,}) ?SEARCH[ \t]*")
SEPARATOR = re.compile(r"(={5,})[ \t]*")
END = re.compile(r"(>{5,}) ?REPLACE[ \t]*")
FENCE = re.compile(r"[ \t]*(?:```|~~~)[\w.+-]*[ \t]*")
SHOWN_PLACES = 5

SHAPE = "<<<<<<< SEARCH, the old lines, =======, the new lines, >>>>>>> REPLACE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Old text and new, without the last newline; ``replace`` None deletes. ``number`` counts from 1.

    ``everywhere``: wherever the old text is, however often.
    """

    number: int
    search: str
    replace: str | None
    everywhere: bool = False

    def written(self) -> str:
        """The block as a model would write it."""
        new = "" if self.replace is None else f"{self.replace}\n"
        return f"<<<<<<< SEARCH\n{self.search}\n=======\n{new}>>>>>>> REPLACE\n"


class BlockSyntaxError(ToolError):
    """Content that is no sequence of blocks."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the content holds no well-formed SEARCH/REPLACE blocks: {problem}; write {SHAPE}")
        self.problem = problem


class BlockNotAppliedError(ToolError):
    """A block that does not fit the file; nothing was changed."""

    def __init__(self, name: str, number: int, problem: str) -> None:
        super().__init__(f"block {number} does not fit {name!r}, so nothing was changed: {problem}")
        self.number = number
        self.problem = problem


def parse_blocks(content: str) -> tuple[Block, ...]:
    """The blocks of a call; between them only empty lines and code fences may stand.

    Raises:
        BlockSyntaxError: says which line is the matter.
    """
    lines = content.replace("\r\n", "\n").split("\n")
    blocks: list[Block] = []
    index = 0
    while index < len(lines):
        start = START.fullmatch(lines[index])
        if start is None:
            if lines[index].strip() and not FENCE.fullmatch(lines[index]):
                raise BlockSyntaxError(f"line {index + 1} ({lines[index][:60]!r}) stands outside a block")
            index += 1
            continue
        end = _end(lines, index, len(start[1]))
        blocks.append(_block(lines[index + 1 : end], len(blocks) + 1, len(start[1])))
        index = end + 1
    if not blocks:
        raise BlockSyntaxError("there is none")
    return tuple(blocks)


def _end(lines: list[str], start: int, width: int) -> int:
    ends = [(index, len(found[1])) for index in range(start, len(lines)) if (found := END.fullmatch(lines[index]))]
    same = [index for index, length in ends if length == width]
    if not ends:
        raise BlockSyntaxError(f"the block opened on line {start + 1} has no end")
    return same[0] if same else ends[0][0]


def _block(body: list[str], number: int, width: int) -> Block:
    """Split at the separator; where several lines look like one, the one as long as the block's markers is it."""
    found = [(index, len(match[1])) for index, line in enumerate(body) if (match := SEPARATOR.fullmatch(line))]
    if len(found) > 1:
        found = [(index, length) for index, length in found if length == width] or found
    if not found:
        raise BlockSyntaxError(f"block {number} has no line of equals signs")
    if len(found) > 1:
        raise BlockSyntaxError(
            f"block {number} has {len(found)} lines of equals signs; make all three markers longer "
            "than any line of equals signs in the text"
        )
    index = found[0][0]
    new = body[index + 1 :]
    return Block(number=number, search="\n".join(body[:index]), replace="\n".join(new) if new else None)


def apply_blocks(text: str, blocks: tuple[Block, ...], name: str, least_similar: float = LEAST_SIMILAR) -> str:
    """``text`` after all blocks, each seeing what the earlier ones made of it.

    Where old text is missing, a place is shown that is at least ``least_similar`` to it (0 to 1).

    Raises:
        BlockNotAppliedError: a block's old text is missing or there more than once.
    """
    for block in blocks:
        text = _apply(text, block, name, least_similar)
    return text


def _apply(text: str, block: Block, name: str, least_similar: float) -> str:
    if not block.search:
        if text:
            raise BlockNotAppliedError(name, block.number, "its SEARCH part is empty; only an empty file has that")
        return f"{block.replace}\n" if block.replace is not None else ""
    crlf = text.count("\r\n")
    newlines = ("\r\n", "\n") if crlf > text.count("\n") - crlf else ("\n", "\r\n")
    for newline, find in product(newlines, (_find_exactly, find_equal)):
        places = find(text, block.search.replace("\n", newline))
        if places:
            break
    else:
        raise BlockNotAppliedError(name, block.number, _not_found(text, block, least_similar))
    if len(places) > 1 and not block.everywhere:
        raise BlockNotAppliedError(name, block.number, _not_unique(text, places))
    if not block.everywhere and "\n" not in block.search:
        newline = newlines[0]
    replacement = None if block.replace is None else block.replace.replace("\n", newline)
    if not block.everywhere:
        return _replaced(text, *places[0], replacement)
    pieces: list[str] = []
    done = 0
    for start, end in places:
        if start >= done:
            pieces += [text[done:start], replacement or ""]
            done = end
    return "".join([*pieces, text[done:]])


def _find_exactly(text: str, search: str) -> list[tuple[int, int]]:
    places: list[tuple[int, int]] = []
    at = text.find(search)
    while at >= 0:
        places.append((at, at + len(search)))
        at = text.find(search, at + 1)
    return places


def _replaced(text: str, start: int, end: int, replacement: str | None) -> str:
    if replacement is not None:
        return text[:start] + replacement + text[end:]
    # Whole lines that are deleted take their line end with them.
    if start == 0 or text[start - 1] == "\n":
        ending = next((newline for newline in ("\r\n", "\n") if text.startswith(newline, end)), "")
        end += len(ending)
    return text[:start] + text[end:]


def _not_unique(text: str, places: Sequence[tuple[int, int]]) -> str:
    lines = ", ".join(str(text.count("\n", 0, start) + 1) for start, _ in places[:SHOWN_PLACES])
    more = " and more" if len(places) > SHOWN_PLACES else ""
    return f"its SEARCH text is there more than once (at lines {lines}{more}); add lines around it until it is unique"


def _not_found(text: str, block: Block, least_similar: float) -> str:
    flat = text.replace("\r\n", "\n")
    place = closest_place(flat, block.search, least_similar)
    new = _find_exactly(f"\n{flat}\n", f"\n{block.replace}\n") if block.replace else []
    made = [flat.count("\n", 0, at) + 1 for at, _ in new]
    if place is not None:
        made = [line for line in made if place.start < line <= place.start + len(place.wanted)]
    told = "its SEARCH text is not there; copy it exactly from the file."
    if len(made) == 1:
        there = f"but its REPLACE text is (line {made[0]})"
        told = f"its SEARCH text is not there, {there}: the change seems to be made already."
    elif place is None:
        return f"{told} Nothing in the file looks like it; read the file again."
    return told if place is None else f"{told} {place.described()}"
