r"""Globs of paths: the one place that says which names a glob means; what a step may write, and what a search finds.

A glob is relative to a root, with ``/``. ``*``, ``?`` and ``[...]`` stay within one name, ``**`` as a whole name spans
any number of folders, ``{a,b}`` and ``{1..3}`` list alternatives, ``\`` takes the next character as it is. A name that
is meant literally is found first (``app/[id]/page.tsx``), and in either unicode form. What names a folder, or ends in
``/``, covers everything below it. ``seen_from`` takes globs written with ``~``, ``..`` or whole.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise, product

MOST_GROUPS = 32
MOST_ALTERNATIVES = 1_000
"""A glob with more groups in braces, or more alternatives, is taken literally."""

_WILD = re.compile(r"[*?\[{}\\]")
_CLASS_OR_CHARACTER = re.compile(r"\\.|\[[!^]?\]?[^\]/]*\]|.", re.DOTALL)
_RANGE = re.compile(r"(-?\d{1,6})\.\.(-?\d{1,6})")


def is_wild(text: str) -> bool:
    """Return whether a glob, or a name of one, says anything but itself."""
    return _WILD.search(text) is not None


def matches_any(name: str, globs: Iterable[str]) -> bool:
    """Return whether a path with ``/`` matches one of ``globs``."""
    if not name.isascii():
        name = unicodedata.normalize("NFC", name)
    return any(_regex(glob).fullmatch(name) for glob in globs)


def seen_from(root: str, glob: str) -> str:
    """A glob relative to ``root``, however it was written; one that leads elsewhere whole."""
    text = os.path.expanduser(glob)  # noqa: PTH111  a glob is no path
    if not text.startswith("/") and ".." not in text.split("/"):
        return glob
    whole = os.path.normpath(f"{root}/{text}" if not text.startswith("/") else text)
    if whole == root:
        return "."
    return whole.removeprefix(f"{root.rstrip('/')}/") + ("/" if text.endswith("/") else "")


def expand_braces(glob: str) -> tuple[str, ...]:
    """The globs without braces that a glob stands for: itself where it has none, or too many."""
    if glob.count("{") > MOST_GROUPS:
        return (glob,)
    found = _expanded(glob)
    return found if len(found) <= MOST_ALTERNATIVES else (glob,)


def _expanded(glob: str) -> tuple[str, ...]:
    """The same; more than ``MOST_ALTERNATIVES`` where there are too many, and not all of them."""
    group = _first_group(glob)
    if group is None:
        return (glob,)
    start, options, end = group
    middles = [middle for option in options for middle in _expanded(option)]
    ends = _expanded(glob[end:])
    if len(middles) * len(ends) > MOST_ALTERNATIVES:
        return (glob,) * (MOST_ALTERNATIVES + 1)
    return tuple(dict.fromkeys(glob[:start] + middle + rest for middle, rest in product(middles, ends)))


def _first_group(glob: str) -> tuple[int, list[str], int] | None:
    """The outermost braces that list something and begin first: where they begin, what they list, where they end."""
    opened: list[list[int]] = []
    found: list[list[int]] = []
    for token in re.finditer(r"\\.|[{},]", glob, re.DOTALL):
        if token[0] == "{":
            opened.append([token.start()])
        elif opened and token[0] in {",", "}"}:
            opened[-1].append(token.start())
            if token[0] == "}":
                found.append(opened.pop())
    for cuts in sorted(found):
        inner = glob[cuts[0] + 1 : cuts[-1]]
        numbers = _RANGE.fullmatch(inner)
        if len(cuts) > 2:
            return cuts[0], [glob[a + 1 : b] for a, b in pairwise(cuts)], cuts[-1] + 1
        if numbers is not None:
            return cuts[0], _counted(numbers), cuts[-1] + 1
    return None


def _counted(numbers: re.Match[str]) -> list[str]:
    first, last = int(numbers[1]), int(numbers[2])
    step = 1 if last >= first else -1
    padded = numbers[1].lstrip("-").startswith("0") and len(numbers[1]) > 1
    width = max(len(numbers[1]), len(numbers[2])) if padded else 0
    several = range(first, last + step, step)[: MOST_ALTERNATIVES + 1]
    return [f"{number:0{width}}" for number in several]


@lru_cache(maxsize=1024)
def _regex(glob: str) -> re.Pattern[str]:
    cleaned = unicodedata.normalize("NFC", glob)
    while cleaned.startswith("./"):
        cleaned = cleaned.removeprefix("./").lstrip("/")
    literal = f"{re.escape(cleaned.rstrip('/'))}(?:/.*)?" if is_wild(cleaned) and cleaned.strip("/") else ""
    patterns = [pattern for pattern in (literal, *map(_pattern, expand_braces(cleaned))) if pattern]
    return re.compile("|".join(patterns), re.DOTALL)


def _pattern(glob: str) -> str:
    """A glob without braces as a regular expression.

    What stands between two of a kind is looked for once, from the left (``(?>...)``): where it is found first, most is
    left for the rest, so that going back could find nothing new, and no glob takes long.
    """
    head = "/" if glob.startswith("/") else ""
    parts = [part for part in glob.split("/") if part not in {"", "."}]
    if glob.endswith("/") or not parts:
        parts.append("**")
    runs: list[list[str]] = [[]]
    for part in parts:
        if part == "**":
            runs.append([])
        else:
            runs[-1].append(part)
    first, *others = runs
    pattern = head + "".join(f"{_name(part)}/" for part in first)
    for run in others[:-1]:
        if run:
            pattern += f"(?>(?:[^/]+/)*?{''.join(f'{_name(part)}/' for part in run)})"
    last = (others or [first])[-1]
    if others:
        pattern += ".*" if not last else "(?:[^/]+/)*"
        pattern += "".join(f"{_name(part)}/" for part in last)
    if last:
        pattern = pattern.removesuffix("/") + ("" if is_wild(last[-1]) else "(?:/.*)?")
    return pattern


def _name(part: str) -> str:
    """One name of a glob as a regular expression: of the name itself, if brackets are part of it, or of a pattern."""
    if "[" not in part:
        return _name_pattern(part)
    literal = re.sub(r"\\.|\[", lambda found: found[0] if len(found[0]) > 1 else r"\[", part)
    return f"(?:{_name_pattern(literal)}|{_name_pattern(part)})"


def _name_pattern(part: str) -> str:
    pieces: list[str] = [""]
    for token in _CLASS_OR_CHARACTER.findall(part):
        if token == "*":  # noqa: S105  glob syntax, no password
            pieces.append("")
        elif token == "?":  # noqa: S105  as above
            pieces[-1] += "[^/]"
        elif len(token) > 1:
            pieces[-1] += re.escape(token[1:]) if token.startswith("\\") else _class(token)
        else:
            pieces[-1] += re.escape(token)
    if len(pieces) == 1:
        return pieces[0]
    between = "".join(f"(?>[^/]*?{piece})" for piece in pieces[1:-1] if piece)
    return f"{pieces[0]}{between}[^/]*{pieces[-1]}"


def _class(token: str) -> str:
    """``[a-z]`` or ``[!a-z]`` as a regular expression; the text itself where it is none, such as ``[z-a]``."""
    negated = token[1] in "!^"
    body = token[2 if negated else 1 : -1].replace("\\", r"\\").replace("[", r"\[").replace("]", r"\]")
    pattern = f"(?!/)[{'^' if negated else ''}{body}]"
    try:
        re.compile(pattern)
    except re.error:
        return re.escape(token)
    return pattern
