"""SkillManager: the skills of one workspace: found, chosen by patterns, listed for a prompt, loaded on demand."""

from __future__ import annotations

import html
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from vibe.core.config.patterns import left_out
from vibe.core.skills.models import SKILL_FILE, NoSuchSkillError, ParsedSkill, SkillFileError, SkillInfo
from vibe.core.skills.parser import MAX_DESCRIPTION, parse_skill

MAX_FOLDERS = 500
"""The most entries of one search path that are looked at."""
DEEPEST = 2
"""Folders between a search path and the folder of a skill."""
MAX_LIST = 8_000
"""Characters of the list in a prompt; further skills are named without their descriptions."""

_INTRODUCTION = (
    "# Available Skills\n\n"
    "You have access to the following skills. When a task matches a skill's description, call the `skill` tool with "
    "its name to load its instructions before you begin."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillSources:
    """Folders of skills; among skills of one name the first found stays: ``configured``, ``project``, ``user``."""

    configured: tuple[Path, ...] = ()
    project: tuple[Path, ...] = ()
    user: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillPatterns:
    """Exact names, globs or ``re:``; ``disabled`` counts only while ``enabled`` is empty."""

    enabled: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()


class SkillManager:
    """The skills there are. Construction reads files: do it before the event loop or in a thread.

    Raises:
        ConfigError: a pattern is not valid.
    """

    def __init__(self, sources: SkillSources | None = None, patterns: SkillPatterns | None = None) -> None:
        chosen = patterns or SkillPatterns()
        warnings: list[str] = []
        found = _discover(sources or SkillSources(), warnings)
        dropped = left_out("skill", found, chosen.enabled, chosen.disabled, warnings)
        self._skills = MappingProxyType({name: found[name] for name in sorted(found) if name not in dropped})
        self.warnings = tuple(warnings)

    @property
    def available(self) -> Mapping[str, SkillInfo]:
        """The skills by name, in the order of names."""
        return self._skills

    @property
    def commands(self) -> Mapping[str, SkillInfo]:
        """The skills a person can start, by the name of their slash command."""
        return {info.command: info for info in self._skills.values() if info.user_invocable}

    def get(self, name: str) -> SkillInfo:
        """The skill of that name, or whose slash command it is.

        Raises:
            NoSuchSkillError: there is none.
        """
        wanted = name.strip().removeprefix("/")
        by_command = (info for info in self._skills.values() if info.command == wanted.casefold())
        info = self._skills.get(wanted) or next(by_command, None)
        if info is None:
            raise NoSuchSkillError(wanted, tuple(self._skills))
        return info

    def load(self, name: str) -> ParsedSkill:
        """The skill with its instructions, as they are on disk now; blocks.

        Raises:
            NoSuchSkillError: there is none.
            SkillFileError: its file can't be used any more.
        """
        return parse_skill(self.get(name).path)

    def prompt_section(self) -> str:
        """The list for a system prompt, nothing in it able to end its element; empty without skills."""
        told = [info for info in self._skills.values() if info.model_invocable]
        if not told:
            return ""
        entries: list[str] = []
        named_only: list[str] = []
        room = MAX_LIST
        for info in told:
            entry = _entry(info)
            room -= len(entry)
            if room >= 0:
                entries.append(entry)
            else:
                named_only.append(html.escape(info.name))
        more = f"\nMore skills, without their descriptions: {', '.join(named_only)[:MAX_LIST]}" if named_only else ""
        return "\n".join([_INTRODUCTION, "", "<available_skills>", *entries, "</available_skills>"]) + more


def _entry(info: SkillInfo) -> str:
    description = info.description[:MAX_DESCRIPTION]
    return (
        f"  <skill>\n    <name>{html.escape(info.name)}</name>\n"
        f"    <description>{html.escape(description)}</description>\n"
        f"    <path>{html.escape(str(info.path))}</path>\n  </skill>"
    )


def _discover(sources: SkillSources, warnings: list[str]) -> dict[str, SkillInfo]:
    found: dict[str, SkillInfo] = {}
    for folder in sources.configured:
        if not folder.is_dir():
            warnings.append(f"skill_paths: {str(folder)!r} is not a folder, correct it")
    for path in _files((*sources.configured, *sources.project, *sources.user)):
        try:
            parsed = parse_skill(path)
        except SkillFileError as error:
            warnings.append(str(error))
            continue
        warnings.extend(parsed.warnings)
        known = found.setdefault(parsed.info.name, parsed.info)
        if known is not parsed.info:
            warnings.append(f"two skills are called {known.name!r}: {known.path} is used, not {path}")
    return found


def _files(folders: Iterable[Path]) -> Iterator[Path]:
    """The skill files below search paths, each once, whatever links lead to it."""
    seen: set[str] = set()
    for folder in folders:
        for path in _skill_files(folder, DEEPEST):
            real = os.path.realpath(path)
            if real not in seen:
                seen.add(real)
                yield path


def _skill_files(folder: Path, deep: int) -> Iterator[Path]:
    """Yield the skill files of a folder's folders, and of theirs where one has none itself."""
    for entry in _entries(folder):
        if (path := entry / SKILL_FILE).is_file():
            yield path
        elif deep:
            yield from _skill_files(entry, deep - 1)


def _entries(folder: Path) -> Sequence[Path]:
    try:
        names = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    except OSError:
        return ()
    return [folder / name for name in names[:MAX_FOLDERS]]
