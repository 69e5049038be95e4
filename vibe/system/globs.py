r"""Globs of paths: the one place that defines which names a glob matches, for what a step may write and searches find.

A glob is relative to a root and uses ``/``. ``*``, ``?`` and ``[...]`` match within one name, ``**`` as a whole name
matches any number of folders, ``{a,b}`` and ``{1..3}`` list alternatives, and ``\`` makes the next character literal. A
name that is meant literally matches, too (``app/[id]/page.tsx``), in either Unicode form. A glob that names a folder,
or ends in ``/``, covers everything below it. ``relative_glob`` takes globs that are absolute or have ``~`` or ``..``.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise, product

MOST_GROUPS = 32
"""The most groups of braces in a glob. One with more is taken literally."""
MOST_ALTERNATIVES = 1_000
"""The most alternatives of a glob. One with more is taken literally."""

_WILD = re.compile(r"[*?\[{}\\]")
_CLASS_OR_CHARACTER = re.compile(r"\\.|\[[!^]?\]?[^\]/]*\]|.", re.DOTALL)
_RANGE = re.compile(r"(-?\d{1,6})\.\.(-?\d{1,6})")


def is_wild(text: str) -> bool:
    """Return whether a glob, or a name in one, may match anything but its own text."""
    return _WILD.search(text) is not None


def matches_any(name: str, globs: Iterable[str]) -> bool:
    """Return whether a path that uses ``/`` matches one of ``globs``."""
    if not name.isascii():
        name = unicodedata.normalize("NFC", name)
    return any(_regex(glob).fullmatch(name) for glob in globs)


def relative_glob(root: str, glob: str) -> str:
    """Return a glob relative to ``root``. One that leads elsewhere is returned as an absolute glob."""
    text = os.path.expanduser(glob)  # noqa: PTH111  a glob is no path
    if not text.startswith("/") and ".." not in text.split("/"):
        return glob
    whole = os.path.normpath(f"{root}/{text}" if not text.startswith("/") else text)
    if whole == root:
        return "."
    return whole.removeprefix(f"{root.rstrip('/')}/") + ("/" if text.endswith("/") else "")


def expand_braces(glob: str) -> tuple[str, ...]:
    """Return the globs without braces that a glob stands for: itself if it has none, or too many."""
    if glob.count("{") > MOST_GROUPS:
        return (glob,)
    found = _expanded(glob)
    return found if len(found) <= MOST_ALTERNATIVES else (glob,)


def _expanded(glob: str) -> tuple[str, ...]:
    """Expand the braces. If there are too many results, return more than ``MOST_ALTERNATIVES`` of them, but not all."""
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
    """Return the first outermost group of braces that lists something: its start, its alternatives and its end."""
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
    """Return a regular expression for a glob without braces.

    The part between two wildcards of the same kind is matched once, from the left (``(?>...)``). The first match leaves
    most for the rest, so backtracking could find nothing new, and no glob takes long.
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
    """Return a regular expression for one name of a glob, which also matches the literal name if it has brackets."""
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
    """Return a regular expression for ``[a-z]`` or ``[!a-z]``, or for its literal text if invalid (``[z-a]``)."""
    negated = token[1] in "!^"
    body = token[2 if negated else 1 : -1].replace("\\", r"\\").replace("[", r"\[").replace("]", r"\]")
    pattern = f"(?!/)[{'^' if negated else ''}{body}]"
    try:
        re.compile(pattern)
    except re.error:
        return re.escape(token)
    return pattern
