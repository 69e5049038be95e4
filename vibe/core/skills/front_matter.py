"""Reads the front matter of Markdown files: YAML between two lines of ``---``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

FENCE = re.compile(r"-{3,}[ \t]*")
MOST_BRACKETS = 1_000
"""Lists and tables within each other that are read; the parser's time grows with the square of their depth."""
_KEY = re.compile(r"([A-Za-z_][\w-]*):(?:[ \t]|$)")
_PLAIN_LINE = re.compile(r"[\w-]+:[ \t]+[^\s\"'\[{|>&*!#].*")
"""A key with a value on one line that looks like text, with colons in it if it is not valid."""


class FrontMatterError(ValueError):
    """The front matter can't be understood; the text says why and how to fix it."""


def split_front_matter(text: str) -> tuple[str, str]:
    """Split a file into its front matter and the text below.

    Raises:
        FrontMatterError: there is no front matter, or it is not closed.
    """
    lines = text.splitlines()
    if not lines or not FENCE.fullmatch(lines[0]):
        raise FrontMatterError("it does not start with frontmatter between two lines of ---")
    for index, line in enumerate(lines[1:], 1):
        if FENCE.fullmatch(line):
            return "\n".join(lines[1:index]), "\n".join(lines[index + 1 :])
    raise FrontMatterError("its frontmatter is not closed, add a line of --- below it")


def front_matter_fields(header: str, warnings: list[str]) -> Mapping[str, Any]:
    """Return the fields of a front matter, adding problems that could be worked around to ``warnings``.

    If it is not valid YAML, each key is read by itself, since unquoted colons are a common mistake.

    Raises:
        FrontMatterError: it is not valid.
    """
    import yaml

    try:
        return _load(header, warnings)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        where = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or str(error) or type(error).__name__
        problem = f"line {where.line + 2}: {reason}" if where else str(reason)
    warnings.clear()
    if fields := _by_key(header, warnings):
        return fields
    raise FrontMatterError(f"its frontmatter is not valid YAML ({problem}), quote values that hold a colon")


def _by_key(header: str, warnings: list[str]) -> Mapping[str, Any]:
    """Read each key by itself, so that an invalid value affects no other: it is taken as plain text."""
    import yaml

    parts: dict[str, list[str]] = {}
    key = ""
    for line in header.splitlines():
        key = found[1] if (found := _KEY.match(line)) else key
        parts.setdefault(key, []).append(line)
    fields: dict[str, Any] = {}
    for key, lines in parts.items():
        text = "\n".join(lines).strip()
        try:
            fields |= _load(text, warnings)
        except (yaml.YAMLError, ValueError, RecursionError):
            if not key:
                return {}
            fields[key] = " ".join(text.partition(":")[2].split())
            if not _PLAIN_LINE.fullmatch(text):
                warnings.append(f"{key!r} is not valid YAML and is taken as text; quote it")
    return fields


def _load(text: str, warnings: list[str]) -> Mapping[str, Any]:
    """Parse a YAML mapping, in which the first of repeated keys counts.

    Raises:
        yaml.YAMLError, ValueError: the text is not a mapping.
    """
    import yaml

    if sum(map(text.count, "[{")) > MOST_BRACKETS:
        raise ValueError("it has too many brackets")
    loader = yaml.SafeLoader(text)
    # Merged tables can grow without bound.
    setattr(loader, "flatten_mapping", lambda _: None)  # noqa: B010  # pyright: ignore[reportUnknownLambdaType]  untyped
    try:
        node = loader.get_single_node()
        if node is None:
            return {}
        if not isinstance(node, yaml.MappingNode):
            raise ValueError("it is not a list of `key: value` lines")  # noqa: TRY004  one kind of refusal for the caller
        kept: dict[str, tuple[Any, Any]] = {}
        for key, value in node.value:
            name = str(key.value)
            if name in kept:
                warnings.append(f"line {key.start_mark.line + 2}: {name!r} is set twice, the first one counts")
            else:
                kept[name] = (key, value)
        node.value = list(kept.values())
        construct = cast("Callable[[Any], Any]", getattr(loader, "construct_document"))  # noqa: B009  untyped in the stubs
        return {str(key): value for key, value in construct(node).items()}
    finally:
        loader.dispose()


def text_of_field(value: Any) -> str:
    """Return a scalar as text on one line; empty for anything else."""
    if value is None or isinstance(value, dict | list):
        return ""
    return " ".join(str(value).split())
