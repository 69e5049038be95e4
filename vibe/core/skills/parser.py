"""Reads a ``SKILL.md`` as the Agent Skills specification has it, and forgives what other clients forgive.

A missing description and YAML that can't be read make a skill unusable; everything else is a warning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from vibe.core.skills.models import ParsedSkill, SkillFileError, SkillInfo

MAX_FILE_BYTES = 256 * 1024
MAX_NAME = 64
MAX_DESCRIPTION = 1_024
MAX_COMPATIBILITY = 500

_FENCE = re.compile(r"-{3,}[ \t]*")
_PLAIN_LINE = re.compile(r"(?P<key>[A-Za-z_][\w-]*):[ \t]+(?P<value>[^\s\"'\[{|>&*!#].*?)[ \t]*")
_TOOL = re.compile(r"[^\s,()]+(?:\([^)]*\))?")
_FALSE = frozenset({"false", "no", "off", "0"})


def parse_skill(path: Path) -> ParsedSkill:
    """Read one file; blocks.

    Raises:
        SkillFileError: it can't be read, has no usable frontmatter, or no description.
    """
    warnings: list[str] = []
    header, body = _split(path, _read(path))
    fields = _fields(path, header, warnings)
    description = _text(fields.get("description"))
    if not description:
        raise SkillFileError(path, "its frontmatter has no description, add one line that says when to use it")
    info = SkillInfo(
        name=_name(path, fields, warnings),
        description=description,
        path=path,
        license=_text(fields.get("license")) or None,
        compatibility=_text(fields.get("compatibility")) or None,
        metadata=_metadata(fields.get("metadata"), warnings),
        allowed_tools=_tools(fields.get("allowed-tools", fields.get("allowed_tools")), warnings),
        user_invocable=_flag(fields.get("user-invocable", fields.get("user_invocable"))),
    )
    _check_lengths(info, warnings)
    return ParsedSkill(info=info, body=body.strip(), warnings=tuple(f"{path}: {warning}" for warning in warnings))


def split_tools(text: str) -> tuple[str, ...]:
    """The entries of an ``allowed-tools`` line: ``Read Bash(git add:*)`` has two."""
    return tuple(_TOOL.findall(text))


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise SkillFileError(path, f"it can't be read ({error.strerror})") from error
    if len(data) > MAX_FILE_BYTES:
        raise SkillFileError(path, f"it is longer than {MAX_FILE_BYTES} bytes, move details to files beside it")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SkillFileError(path, f"it is not UTF-8 (byte {error.start}), save it as UTF-8") from error


def _split(path: Path, text: str) -> tuple[str, str]:
    """The frontmatter and what is below it."""
    lines = text.splitlines()
    if not lines or not _FENCE.fullmatch(lines[0]):
        raise SkillFileError(path, "it does not start with frontmatter between two lines of ---")
    for index, line in enumerate(lines[1:], 1):
        if _FENCE.fullmatch(line):
            return "\n".join(lines[1:index]), "\n".join(lines[index + 1 :])
    raise SkillFileError(path, "its frontmatter is not closed, add a line of --- below it")


def _fields(path: Path, header: str, warnings: list[str]) -> Mapping[str, Any]:
    """The frontmatter as a mapping; a second try takes values with unquoted colons as text."""
    import yaml

    problem = ""
    for attempt, text in enumerate((header, _quoted(header))):
        try:
            return _load(text, warnings)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            where = getattr(error, "problem_mark", None)
            reason = getattr(error, "problem", None) or str(error) or type(error).__name__
            problem = problem or (f"line {where.line + 2}: {reason}" if where else str(reason))
        if attempt == 0:
            warnings.clear()
    raise SkillFileError(path, f"its frontmatter is not valid YAML ({problem}), quote values that hold a colon")


def _load(text: str, warnings: list[str]) -> Mapping[str, Any]:
    """A mapping whose first entry of a repeated key counts.

    Raises:
        yaml.YAMLError, ValueError: it is none.
    """
    import yaml

    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return {}
        if not isinstance(node, yaml.MappingNode):
            raise ValueError("it is no list of `key: value` lines")  # noqa: TRY004  one kind of refusal for the caller
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


def _quoted(header: str) -> str:
    """Every plain one-line value in quotes."""
    lines = header.splitlines()
    for index, line in enumerate(lines):
        found = _PLAIN_LINE.fullmatch(line)
        continued = index + 1 < len(lines) and lines[index + 1][:1] in {" ", "\t"}
        if found and not continued:
            value = found["value"].replace("\\", "\\\\").replace('"', '\\"')
            lines[index] = f'{found["key"]}: "{value}"'
    return "\n".join(lines)


def _text(value: Any) -> str:
    """A scalar on one line; nothing else is text."""
    if value is None or isinstance(value, dict | list):
        return ""
    return " ".join(str(value).split())


def _name(path: Path, fields: Mapping[str, Any], warnings: list[str]) -> str:
    folder, name = path.parent.name, _text(fields.get("name"))
    if not name:
        warnings.append(f"the frontmatter has no name, the folder's is used: {folder!r}")
        return folder
    plain = re.fullmatch(r"[^\W_]+(-[^\W_]+)*", name) and name == name.lower()
    if not plain:
        warnings.append(f"the name {name!r} is not made of lower-case letters, digits and single hyphens")
    if len(name) > MAX_NAME:
        warnings.append(f"the name has {len(name)} characters, more than {MAX_NAME}")
    if name != folder:
        warnings.append(f"the name {name!r} is not the folder's, {folder!r}")
    return name


def _check_lengths(info: SkillInfo, warnings: list[str]) -> None:
    for what, text, most in (
        ("description", info.description, MAX_DESCRIPTION),
        ("compatibility", info.compatibility or "", MAX_COMPATIBILITY),
    ):
        if len(text) > most:
            warnings.append(f"the {what} has {len(text)} characters, more than {most}")


def _metadata(value: Any, warnings: list[str]) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        warnings.append("metadata is no table of strings and is ignored")
        return {}
    found = {str(key): item for key, item in cast("dict[Any, Any]", value).items()}
    dropped = [key for key, item in found.items() if isinstance(item, dict | list)]
    if dropped:
        warnings.append(f"metadata {', '.join(dropped)} is not text and is ignored")
    return {key: str(item) for key, item in found.items() if key not in dropped}


def _tools(value: Any, warnings: list[str]) -> tuple[str, ...] | None:
    """None where nothing is said; what can't be understood allows nothing, for a restriction must not vanish."""
    if value is None:
        return None
    if isinstance(value, str):
        return split_tools(value)
    if isinstance(value, list):
        return tuple(entry for item in cast("list[Any]", value) for entry in split_tools(_text(item)))
    warnings.append("allowed-tools is neither text nor a list: the skill allows no tool")
    return ()


def _flag(value: Any) -> bool:
    return True if value is None else str(value).casefold() not in _FALSE
