"""Reads a ``SKILL.md`` as the Agent Skills specification has it, and forgives what other clients forgive.

A missing description and YAML that can't be read make a skill unusable; everything else is a warning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from vibe.core.skills.front_matter import FrontMatterError, front_matter_fields, split_front_matter, text_of_field
from vibe.core.skills.models import ParsedSkill, SkillFileError, SkillInfo

MAX_FILE_BYTES = 256 * 1024
MAX_NAME = 64
MAX_DESCRIPTION = 1_024
MAX_COMPATIBILITY = 500

_TOOL = re.compile(r"[^\s,()]+(?:\([^)]*\))?")
_FALSE = frozenset({"false", "no", "off", "0"})


def parse_skill(path: Path) -> ParsedSkill:
    """Read one file; blocks.

    Raises:
        SkillFileError: it can't be read, has no usable frontmatter, or no description.
    """
    warnings: list[str] = []
    try:
        header, body = split_front_matter(_read(path))
        fields = front_matter_fields(header, warnings)
    except FrontMatterError as error:
        raise SkillFileError(path, str(error)) from error
    description = text_of_field(fields.get("description"))
    if not description:
        raise SkillFileError(path, "its frontmatter has no description, add one line that says when to use it")
    info = SkillInfo(
        name=_name(path, fields, warnings),
        description=description,
        path=path,
        license=text_of_field(fields.get("license")) or None,
        compatibility=text_of_field(fields.get("compatibility")) or None,
        metadata=_metadata(fields.get("metadata"), warnings),
        allowed_tools=_tools(fields.get("allowed-tools", fields.get("allowed_tools")), warnings),
        user_invocable=_flag(fields.get("user-invocable", fields.get("user_invocable"))),
        model_invocable=not _is_set(fields.get("disable-model-invocation", fields.get("disable_model_invocation"))),
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


def _name(path: Path, fields: Mapping[str, Any], warnings: list[str]) -> str:
    folder, name = path.parent.name, text_of_field(fields.get("name"))
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
        warnings.append("metadata is not a table of strings and is ignored")
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
        return tuple(entry for item in cast("list[Any]", value) for entry in split_tools(text_of_field(item)))
    warnings.append("allowed-tools is neither text nor a list: the skill allows no tool")
    return ()


def _is_set(value: Any) -> bool:
    return value is not None and _flag(value)


def _flag(value: Any) -> bool:
    return True if value is None else str(value).casefold() not in _FALSE
