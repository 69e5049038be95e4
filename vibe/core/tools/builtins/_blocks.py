"""SEARCH/REPLACE blocks: parses them, applies them to text, and finds the place most similar to a missing text."""

from __future__ import annotations

import heapq
import re
import time
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher, unified_diff
from functools import lru_cache
from itertools import islice

from msgspec import Struct

from vibe.core.tools.errors import ToolError

BUDGET_SECONDS = 0.5
"""The most seconds spent looking for a similar place."""
CANDIDATES = 12
"""The most places that are compared in full."""
COMPARED_CHARACTERS = 2_000
"""The most characters that are compared."""
COMPARED_LINES = 120
"""The most lines of a place that are compared."""
LEAST_SIMILAR = 0.9
"""The least similarity (0 to 1) of a place that is shown."""
LOOKALIKE_TEXT_LENGTH = 1_000_000
"""The most characters of a text in which a place is searched for that only looks the same."""
DIFF_CHARACTERS = 4_000
"""The most characters of the diff that are shown."""


SHOWN_DIFFERENCES = 5
"""The most differences between similar characters that are named."""
LOOKALIKES = {
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u02bc\u2032\u00b4`", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"'),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
    **dict(zip("\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0455\u0458", "aeopcyxisj", strict=True)),
    **dict(zip("\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425", "ABEKMHOPCTX", strict=True)),
}
"""Characters that look like an ASCII one.

``_normalized`` also handles spaces, and invisible and full-width characters.
"""


class ClosePlace(Struct, frozen=True, kw_only=True):
    """Lines of a text that look like the text searched for. ``start`` counts from 0."""

    start: int
    lines: list[str]
    wanted: list[str]

    def described(self) -> str:
        """Return a diff against the text searched for, followed by the names of characters that only look alike."""
        wanted = self.wanted[:COMPARED_LINES]
        only_spaces = "".join("".join(self.wanted).split()) == "".join("".join(self.lines).split())
        diff = unified_diff(wanted, self.lines, "SEARCH", f"file, from line {self.start + 1}", lineterm="", n=2)
        shown = "\n".join(line[:300] for line in diff)[:DIFF_CHARACTERS]
        alike = "".join(f"\n{line}" for line in islice(self._lookalike_notes(), SHOWN_DIFFERENCES))
        return f"The closest place{' (only white space differs)' if only_spaces else ''}:\n{shown}{alike}"

    def _lookalike_notes(self) -> Iterator[str]:
        for number, (there, here) in enumerate(zip(self.lines, self.wanted, strict=False), start=self.start + 1):
            if (there.isascii() and here.isascii()) or max(len(there), len(here)) > COMPARED_CHARACTERS:
                continue
            part = _similar_part(there, here)
            for tag, a, b, c, d in SequenceMatcher(None, here, part, autojunk=False).get_opcodes():
                if tag != "equal" and _normalized(here[a:b]) == _normalized(part[c:d]):
                    yield f"line {number}: the file has {_names_of(part[c:d])} where SEARCH has {_names_of(here[a:b])}"


def closest_place(text: str, search: str, least_similar: float = LEAST_SIMILAR) -> ClosePlace | None:
    """Return the lines of ``text`` that look most like ``search``, or None if nothing looks like it."""
    lines, wanted = text.split("\n"), search.split("\n")
    looks = _normalized(text) if search.strip() and len(text) <= LOOKALIKE_TEXT_LENGTH else ""
    at = looks.find(_normalized(search)) if looks else -1
    start, ratio = looks.count("\n", 0, max(at, 0)), 1.0
    if at < 0:
        start, ratio = _closest(lines, wanted, time.monotonic() + BUDGET_SECONDS)
    place = ClosePlace(start=start, lines=lines[start : start + len(wanted)][:COMPARED_LINES], wanted=wanted)
    only_spaces = "".join(search.split()) == "".join("".join(place.lines).split())
    return place if ratio >= least_similar or only_spaces else None


def find_equal(text: str, search: str) -> list[tuple[int, int]]:
    """Return the start and end of each place that Unicode considers equal to ``search``, composed or decomposed."""
    if text.isascii():
        return []
    flat, wanted = (unicodedata.normalize("NFD", one) for one in (text, search))
    places = ([_position(text, flat, at) for at in found.span()] for found in re.finditer(re.escape(wanted), flat))
    return [(start, end) for start, end in places if start is not None and end is not None]


def _position(text: str, flat: str, at: int) -> int | None:
    """Return where a position in the decomposed text is in the text itself, or None if it is inside a character."""
    line = flat.count("\n", 0, at)
    left = at - (flat.rfind("\n", 0, at) + 1)
    position = 0
    for _ in range(line):
        position = text.index("\n", position) + 1
    while left > 0:
        left -= len(unicodedata.normalize("NFD", text[position]))
        position += 1
    following = text[position : position + 1]
    # The range holds the vowels and final consonants of Hangul syllables.
    inside = following and (unicodedata.combining(following) or "\u1160" <= following <= "\u11ff")
    return None if left or inside else position


def _normalized(text: str) -> str:
    """Return a text with one character in place of all that look like it, and without invisible ones."""
    return text if text.isascii() else "".join(map(_normalized_character, unicodedata.normalize("NFKC", text)))


def _similar_part(line: str, wanted: str) -> str:
    """Return the part of a line that looks like ``wanted``, or the whole line if none does."""
    look = _normalized(wanted)
    starts = (start for start in range(len(line)) if _normalized(line[start:]).startswith(look))
    start = next(starts, -1)
    ends = (end for end in range(start, len(line) + 1) if _normalized(line[start:end]) == look)
    return line if start < 0 else line[start : next(ends, None)]


@lru_cache(maxsize=4096)
def _normalized_character(character: str) -> str:
    kind = unicodedata.category(character)
    if kind == "Cf":
        return ""
    return " " if kind == "Zs" else LOOKALIKES.get(character, character)


def _names_of(text: str) -> str:
    names = [f"U+{ord(one):04X} {unicodedata.name(one, '')}".rstrip() for one in text[:SHOWN_DIFFERENCES]]
    return " and ".join(names) or "nothing"


def _closest(lines: list[str], wanted: list[str], deadline: float) -> tuple[int, float]:
    """Return the first line of the window that looks most like ``wanted``, and its similarity (0 to 1)."""
    target = "\n".join(wanted)[:COMPARED_CHARACTERS]
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(target)
    best = (0, 0.0)
    for start in _candidates(lines, wanted, deadline):
        matcher.set_seq1("\n".join(lines[start : start + len(wanted)])[:COMPARED_CHARACTERS])
        if matcher.real_quick_ratio() > best[1] and matcher.quick_ratio() > best[1]:
            best = max(best, (start, matcher.ratio()), key=lambda found: found[1])
        if time.monotonic() > deadline:
            break
    return best


def _candidates(lines: list[str], wanted: list[str], deadline: float) -> list[int]:
    """Return the windows that share most lines with ``wanted``, or else those around lines most like its first one."""
    scores = _shared_lines(lines, wanted)
    best = heapq.nlargest(CANDIDATES, range(len(scores)), key=lambda start: (scores[start], -start))
    shared = [start for start in best if scores[start]]
    return shared or _around_similar_lines(lines, wanted, deadline)


def _shared_lines(lines: list[str], wanted: list[str]) -> list[int]:
    """Return how many lines of ``wanted`` each window of its length contains, ignoring surrounding white space."""
    left = Counter(key for line in wanted if (key := line.strip()))
    stripped = [line.strip() for line in lines]
    score = 0
    scores: list[int] = []
    for end, key in enumerate(stripped):
        if key in left:
            score += left[key] > 0
            left[key] -= 1
        gone = end - len(wanted)
        if gone >= 0 and stripped[gone] in left:
            left[stripped[gone]] += 1
            score -= left[stripped[gone]] > 0
        if end >= len(wanted) - 1:
            scores.append(score)
    return scores or [score]


def _around_similar_lines(lines: list[str], wanted: list[str], deadline: float) -> list[int]:
    anchor = next((index for index, line in enumerate(wanted) if line.strip()), 0)
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted[anchor].strip()[:COMPARED_CHARACTERS])
    found: list[tuple[float, int]] = []
    least = 0.3
    for index, line in enumerate(lines):
        matcher.set_seq1(line.strip()[:COMPARED_CHARACTERS])
        if matcher.real_quick_ratio() > least and matcher.quick_ratio() > least:
            ratio = matcher.ratio()
            found.append((ratio, max(index - anchor, 0)))
            least = max(least, ratio * 0.8)
        if index % 64 == 0 and time.monotonic() > deadline - BUDGET_SECONDS / 3:
            break
    return [start for _, start in heapq.nlargest(CANDIDATES, found)]


START = re.compile(r"(<{5,}) ?SEARCH[ \t]*")
SEPARATOR = re.compile(r"(={5,})[ \t]*")
END = re.compile(r"(>{5,}) ?REPLACE[ \t]*")
FENCE = re.compile(r"[ \t]*(?:```|~~~)[\w.+-]*[ \t]*")
SHOWN_PLACES = 5
"""The most places of a repeated text that are named."""

SHAPE = "<<<<<<< SEARCH, the old lines, =======, the new lines, >>>>>>> REPLACE"
"""A description of a block, for error messages."""


class Block(Struct, frozen=True, kw_only=True):
    """Old and new text, without the last newline. If ``replace`` is None, the old text is deleted.

    ``number`` counts from 1.

    With ``everywhere``, every occurrence of the old text is replaced.
    """

    number: int
    search: str
    replace: str | None
    everywhere: bool = False

    def written(self) -> str:
        """Return the block as a model would write it."""
        new = "" if self.replace is None else f"{self.replace}\n"
        return f"<<<<<<< SEARCH\n{self.search}\n=======\n{new}>>>>>>> REPLACE\n"


def _malformed(problem: str) -> ToolError:
    """Return the error for content that is not a sequence of blocks."""
    return ToolError(f"the content holds no well-formed SEARCH/REPLACE blocks: {problem}; write {SHAPE}")


def _misfit(name: str, number: int, problem: str) -> ToolError:
    """Return the error for a block that does not fit the file, which is left unchanged."""
    return ToolError(f"block {number} does not fit {name!r}, so nothing was changed: {problem}")


def parse_blocks(content: str) -> tuple[Block, ...]:
    """Parse the blocks of a call. Only empty lines and code fences are allowed between them.

    Raises:
        ToolError: they are malformed; the message says where.
    """
    lines = content.replace("\r\n", "\n").split("\n")
    blocks: list[Block] = []
    end = -1
    for index, line in enumerate(lines):
        if index > end and (start := START.fullmatch(line)):
            end = _end(lines, index, len(start[1]))
            blocks.append(_block(lines[index + 1 : end], len(blocks) + 1, len(start[1])))
        elif index > end and line.strip() and not FENCE.fullmatch(line):
            raise _malformed(f"line {index + 1} ({line[:60]!r}) stands outside a block")
    if not blocks:
        raise _malformed("there is none")
    return tuple(blocks)


def _end(lines: list[str], start: int, width: int) -> int:
    ends = [(index, len(found[1])) for index in range(start, len(lines)) if (found := END.fullmatch(lines[index]))]
    if not ends:
        raise _malformed(f"the block opened on line {start + 1} has no end")
    return next((index for index, length in ends if length == width), ends[0][0])


def _block(body: list[str], number: int, width: int) -> Block:
    """Split a block at its separator: of several candidates, the one as long as the block's markers."""
    found = [(index, len(match[1])) for index, line in enumerate(body) if (match := SEPARATOR.fullmatch(line))]
    if len(found) > 1:
        found = [(index, length) for index, length in found if length == width] or found
    if not found:
        raise _malformed(f"block {number} has no line of equals signs")
    if len(found) > 1:
        raise _malformed(
            f"block {number} has {len(found)} lines of equals signs; make all three markers longer "
            "than any line of equals signs in the text"
        )
    index = found[0][0]
    new = body[index + 1 :]
    return Block(number=number, search="\n".join(body[:index]), replace="\n".join(new) if new else None)


def apply_blocks(text: str, blocks: tuple[Block, ...], name: str, least_similar: float = LEAST_SIMILAR) -> str:
    """Return ``text`` after applying all blocks, each to the result of those before it.

    If an old text is missing, the error shows the closest place that is at least ``least_similar`` to it (0 to 1).

    Raises:
        ToolError: a block's old text is missing, or occurs more than once.
    """
    for block in blocks:
        text = _apply(text, block, name, least_similar)
    return text


def _apply(text: str, block: Block, name: str, least_similar: float) -> str:
    if not block.search:
        if text:
            raise _misfit(name, block.number, "its SEARCH part is empty; only an empty file has that")
        return f"{block.replace}\n" if block.replace is not None else ""
    places = (
        _find_exactly(text, block.search)
        or find_equal(text, block.search)
        or find_equal(text, block.search.replace("\n", "\r\n"))
    )
    if not places:
        raise _misfit(name, block.number, _not_found(text, block, least_similar))
    if len(places) > 1 and not block.everywhere:
        raise _misfit(name, block.number, _not_unique(text, places))
    around = text[slice(*places[0])] if "\n" in block.search else text
    newline = "\r\n" if 2 * around.count("\r\n") > around.count("\n") else "\n"
    replacement = None if block.replace is None else block.replace.replace("\n", newline)
    if replacement is None and text[(start := places[0][0]) - 1 : start] in {"", "\n"}:
        # Deleting whole lines also deletes their line end.
        end = places[0][1]
        places = [(start, end + (text.startswith("\n", end) or 2 * text.startswith("\r\n", end)))]
    pieces: list[str] = []
    done = 0
    for start, end in places:
        if start >= done:
            pieces += [text[done:start], replacement or ""]
            done = end
    return "".join([*pieces, text[done:]])


def _find_exactly(text: str, search: str) -> list[tuple[int, int]]:
    """Return the start and end of each place of ``search``, whose lines may end with LF or CRLF there."""
    pattern = re.compile("\r?\n".join(map(re.escape, search.split("\n"))))
    places: list[tuple[int, int]] = []
    while found := pattern.search(text, places[-1][0] + 1 if places else 0):
        places.append(found.span())
    return places


def _not_unique(text: str, places: Sequence[tuple[int, int]]) -> str:
    lines = ", ".join(str(text.count("\n", 0, start) + 1) for start, _ in places[:SHOWN_PLACES])
    more = " and more" if len(places) > SHOWN_PLACES else ""
    return f"its SEARCH text is there more than once (at lines {lines}{more}); add lines around it until it is unique"


def _not_found(text: str, block: Block, least_similar: float) -> str:
    flat = text.replace("\r\n", "\n")
    place = closest_place(flat, block.search, least_similar)
    new = _find_exactly(f"\n{flat}\n", f"\n{block.replace}\n") if block.replace else []
    done_at = [flat.count("\n", 0, at) + 1 for at, _ in new]
    if place is not None:
        done_at = [line for line in done_at if place.start < line <= place.start + len(place.wanted)]
    message = "its SEARCH text is not there; copy it exactly from the file."
    if len(done_at) == 1:
        there = f"but its REPLACE text is (line {done_at[0]})"
        message = f"its SEARCH text is not there, {there}: the change seems to be made already."
    elif place is None:
        return f"{message} Nothing in the file looks like it; read the file again."
    return message if place is None else f"{message} {place.described()}"
