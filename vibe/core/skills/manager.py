"""SkillManager: finds the skills of one workspace, selects them by patterns, and lists and loads them.

A ``SKILL.md`` is read by the Agent Skills specification, with the tolerance of other clients: a missing description or
unreadable YAML makes a skill unusable, and everything else is a warning. ``AgentSkills`` knows the skills that one
agent has loaded, and how they restrict its tools.

VibeError
└── UsageError
    ├── NoSuchSkillError       no skill with that name is offered
    └── SkillFileError         a SKILL.md that can't be used
"""

from __future__ import annotations

import html
import json
import os
import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import accumulate
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from msgspec import Struct, field

from vibe.core.config.patterns import left_out, our_tool_name
from vibe.core.schemas import table_of
from vibe.core.skills.front_matter import FrontMatterError, front_matter_fields, split_front_matter, text_of_field
from vibe.system.errors import UsageError, closest, did_you_mean, error_as, os_error_as
from vibe.system.files import entries_of, regular_bytes

SKILL_FILE = "SKILL.md"


class SkillInfo(Struct, frozen=True, kw_only=True):
    """The front matter of a skill. ``path`` is its ``SKILL.md``; ``allowed_tools`` is None if it restricts nothing."""

    name: str
    description: str
    path: Path
    license: str | None = None
    compatibility: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    allowed_tools: tuple[str, ...] | None = None
    user_invocable: bool = True
    model_invocable: bool = True
    """False if only a person may start it."""

    @property
    def command(self) -> str:
        """The name as a slash command: in lower case, with hyphens for spaces."""
        return "-".join(self.name.casefold().split())


class ParsedSkill(Struct, frozen=True, kw_only=True):
    """The content of a skill's file: its front matter, the text below, and warnings."""

    info: SkillInfo
    body: str
    warnings: tuple[str, ...] = ()


class NoSuchSkillError(UsageError):
    """There is no skill with this name."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        hint = did_you_mean(closest(name, known, most=2), f"available: {', '.join(known) or 'none'}")
        super().__init__(f"unknown skill {name!r}; {hint}")


class SkillFileError(UsageError):
    """A skill's file can't be used."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: the skill is not loaded: {problem}")


MAX_FOLDERS = 500
"""The most entries of a folder that are searched."""
DEEPEST = 2
"""The most folders between a search path and the folder of a skill."""
MAX_LIST = 8_000
"""The most characters of the list in a prompt; further skills are named without descriptions."""

_INTRODUCTION = (
    "# Available Skills\n\n"
    "You have access to the following skills. When a task matches a skill's description, call the `skill` tool with "
    "its name to load its instructions before you begin."
)


class SkillManager:
    """The skills of one workspace. Construction reads files: do it before the event loop starts or in a thread.

    Among skills with the same name the first counts, and those in the ``configured`` folders come before the others.
    ``enabled`` and ``disabled`` are exact names, globs or ``re:`` patterns; ``disabled`` counts only if ``enabled`` is
    empty.

    Raises:
        ConfigError: a pattern is not valid.
    """

    def __init__(
        self,
        folders: Sequence[Path] = (),
        configured: Sequence[Path] = (),
        enabled: tuple[str, ...] = (),
        disabled: tuple[str, ...] = (),
    ) -> None:
        gone = (folder for folder in configured if not os.path.isdir(folder))
        warnings = [f"skill_paths: {str(folder)!r} is not a folder, correct it" for folder in gone]
        found = _discover((*configured, *folders), warnings)
        dropped = left_out("skill", found, enabled, disabled, warnings)
        self.available = MappingProxyType({name: found[name] for name in sorted(found) if name not in dropped})
        """The skills by name, sorted by name."""
        self.warnings = tuple(warnings)

    @property
    def commands(self) -> Mapping[str, SkillInfo]:
        """The skills a person can start, by the name of their slash command."""
        return {info.command: info for info in self.available.values() if info.user_invocable}

    def get(self, name: str) -> SkillInfo:
        """Return the skill with this name or slash command.

        Raises:
            NoSuchSkillError: there is none.
        """
        wanted = name.strip().removeprefix("/")
        by_command = (info for info in self.available.values() if info.command == wanted.casefold())
        info = self.available.get(wanted) or next(by_command, None)
        if info is None:
            raise NoSuchSkillError(wanted, tuple(self.available))
        return info

    def load(self, name: str) -> ParsedSkill:
        """Read the skill with its instructions from disk; blocks.

        Raises:
            NoSuchSkillError: there is none.
            SkillFileError: its file can no longer be used.
        """
        return parse_skill(self.get(name).path)

    def prompt_section(self) -> str:
        """Return the list of skills for a system prompt, with all texts escaped; empty without skills."""
        listed = [info for info in self.available.values() if info.model_invocable]
        if not listed:
            return ""
        entries = [*map(_entry, listed)]
        shown = sum(size <= MAX_LIST for size in accumulate(map(len, entries)))
        named_only = ", ".join(html.escape(info.name) for info in listed[shown:])
        more = f"\nMore skills, without their descriptions: {named_only[:MAX_LIST]}" if named_only else ""
        return "\n".join([_INTRODUCTION, "", "<available_skills>", *entries[:shown], "</available_skills>"]) + more


def _entry(info: SkillInfo) -> str:
    description = info.description[:MAX_DESCRIPTION]
    return (
        f"  <skill>\n    <name>{html.escape(info.name)}</name>\n"
        f"    <description>{html.escape(description)}</description>\n"
        f"    <path>{html.escape(str(info.path))}</path>\n  </skill>"
    )


def _discover(folders: Sequence[Path], warnings: list[str]) -> dict[str, SkillInfo]:
    """Return all usable skills by name, with warnings about the others and about duplicates."""
    found: dict[str, SkillInfo] = {}
    for path in _files(folders):
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
    """Yield the skill files below search paths, each once even if several links lead to it."""
    seen: set[str] = set()
    for folder in folders:
        for path in _skill_files(folder, DEEPEST):
            real = os.path.realpath(path)
            if real not in seen:
                seen.add(real)
                yield path


def _skill_files(folder: Path, deep: int) -> Iterator[Path]:
    """Yield the skill files of a folder's subfolders, and search a subfolder without one up to ``deep`` levels down."""
    names = sorted(entry.name for entry in entries_of(folder) if not entry.name.startswith("."))
    for entry in (folder / name for name in names[:MAX_FOLDERS]):
        if os.path.isfile(path := entry / SKILL_FILE):
            yield path
        elif deep:
            yield from _skill_files(entry, deep - 1)


MAX_FILE_BYTES = 256 * 1024
MAX_NAME = 64
MAX_DESCRIPTION = 1_024
MAX_COMPATIBILITY = 500

_TOOL = re.compile(r"[^\s,()]+(?:\([^)]*\))?")
_FALSE = frozenset({"false", "no", "off", "0"})


def parse_skill(path: Path) -> ParsedSkill:
    """Read one ``SKILL.md``; blocks.

    Raises:
        SkillFileError: it can't be read, has no usable front matter, or no description.
    """
    warnings: list[str] = []
    with error_as(FrontMatterError, lambda error: SkillFileError(path, str(error))):
        header, body = split_front_matter(_read(path))
        fields = front_matter_fields(header, warnings)
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
        user_invocable=_flag(fields, "user-invocable", default=True),
        model_invocable=not _flag(fields, "disable-model-invocation", default=False),
    )
    _check_lengths(info, warnings)
    return ParsedSkill(info=info, body=body.strip(), warnings=tuple(f"{path}: {warning}" for warning in warnings))


def split_tools(text: str) -> tuple[str, ...]:
    """Split an ``allowed-tools`` line into its entries: ``Read Bash(git add:*)`` has two."""
    return tuple(_TOOL.findall(text))


def _read(path: Path) -> str:
    with os_error_as(lambda error: SkillFileError(path, f"it can't be read ({error.strerror})")):
        data = regular_bytes(path, MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise SkillFileError(path, f"it is longer than {MAX_FILE_BYTES} bytes, move details to files beside it")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SkillFileError(path, f"it is not UTF-8 (byte {error.start}), save it as UTF-8") from error


def _name(path: Path, fields: Mapping[str, Any], warnings: list[str]) -> str:
    """Return a skill's name, else its folder's, with warnings about names outside the specification."""
    folder, name = path.parent.name, text_of_field(fields.get("name"))
    if not name:
        warnings.append(f"the frontmatter has no name, the folder's is used: {folder!r}")
        return folder
    plain = re.fullmatch(r"[^\W_]+(-[^\W_]+)*", name) and name == name.lower()
    if not plain:
        warnings.append(f"the name {name!r} is not made of lower-case letters, digits and single hyphens")
    if name != folder:
        warnings.append(f"the name {name!r} is not the folder's, {folder!r}")
    return name


def _check_lengths(info: SkillInfo, warnings: list[str]) -> None:
    for what, text, most in (
        ("name", info.name, MAX_NAME),
        ("description", info.description, MAX_DESCRIPTION),
        ("compatibility", info.compatibility or "", MAX_COMPATIBILITY),
    ):
        if len(text) > most:
            warnings.append(f"the {what} has {len(text)} characters, more than {most}")


def _metadata(value: Any, warnings: list[str]) -> dict[str, str]:
    if not isinstance(value, dict | None):
        warnings.append("metadata is not a table of strings and is ignored")
    found = {str(key): item for key, item in table_of(cast("object", value)).items()}
    dropped = [key for key, item in found.items() if isinstance(item, dict | list)]
    if dropped:
        warnings.append(f"metadata {', '.join(dropped)} is not text and is ignored")
    return {key: str(item) for key, item in found.items() if key not in dropped}


def _tools(value: Any, warnings: list[str]) -> tuple[str, ...] | None:
    """Return the allowed tools, or None without a restriction; a value that can't be understood allows nothing."""
    if value is None:
        return None
    if isinstance(value, str):
        return split_tools(value)
    if isinstance(value, list):
        return tuple(entry for item in cast("list[Any]", value) for entry in split_tools(text_of_field(item)))
    warnings.append("allowed-tools is neither text nor a list: the skill allows no tool")
    return ()


def _flag(fields: Mapping[str, Any], name: str, *, default: bool) -> bool:
    value = fields.get(name, fields.get(name.replace("-", "_")))
    return default if value is None else str(value).casefold() not in _FALSE


INVOKED = "The user started the skill {name}."
LOADED = "Skills loaded in this conversation: "
MAX_COMPANIONS = 50
"""The most files beside a ``SKILL.md`` that are listed."""
ALWAYS_ALLOWED = frozenset({"skill", "todo"})
"""Tools that no skill restricts, since they are harmless: a skill can only restrict more, ``todo`` is a notebook."""

_ENTRY = re.compile(r"(?P<name>[^()]+)(?:\((?P<inner>.*)\))?")
_SHELL_SYNTAX = frozenset(";&|<>()$`\n\\{}")


class AgentSkills(Struct, eq=False):
    """Loads skills for one agent, and applies their restrictions of its tools.

    Restrictions add up: every loaded skill that has some must allow a call. ``parent`` are the skills of the agent
    that started this one; their restrictions apply here, too.
    """

    manager: SkillManager = field(default_factory=SkillManager)
    parent: AgentSkills | None = None
    _loaded: dict[str, tuple[str, ...] | None] = field(default_factory=dict[str, tuple[str, ...] | None])

    def load(self, name: str) -> str:
        """Return a skill's instructions for the model, and apply its restriction from now on; blocks.

        Raises:
            NoSuchSkillError, SkillFileError: it can't be loaded, or only a person may start it.
        """
        if not self.manager.get(name).model_invocable:
            known = [info.name for info in self.manager.available.values() if info.model_invocable]
            raise NoSuchSkillError(name, known)
        return self._load(name)

    def _load(self, name: str) -> str:
        parsed = self.manager.load(name)
        self._loaded[parsed.info.name] = parsed.info.allowed_tools
        return _instructions(parsed)

    def invoked(self, prompt: str) -> str:
        """Load the skill that a slash command starts, and return the prompt for it; blocks.

        A prompt that does not start a skill is returned unchanged.

        Raises:
            SkillFileError: the skill can't be loaded.
        """
        word, _, rest = prompt.partition(" ")
        info = self.manager.commands.get(word[1:].casefold()) if word.startswith("/") else None
        if info is None:
            return prompt
        request = rest.strip() or "Do what this skill is for."
        begun = INVOKED.format(name=repr(info.name))
        return f"{begun} Follow its instructions.\n\n{self._load(info.name)}\n\n{request}"

    def refusal(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        """Return why the loaded skills don't allow a call, or None if they do."""
        for name, allowed in self._loaded.items():
            if allowed is not None and not permits(allowed, tool, arguments):
                return f"the skill {name!r} restricts this agent to {', '.join(allowed) or 'no tools'}"
        return self.parent.refusal(tool, arguments) if self.parent is not None else None

    def restore(self, names: Iterable[str]) -> None:
        """Apply the restrictions of the skills a resumed conversation had loaded, as far as they still exist."""
        for name in names:
            with suppress(NoSuchSkillError):
                info = self.manager.get(name)
                self._loaded[info.name] = info.allowed_tools

    def reminder(self) -> str:
        """Return the reminder of the loaded skills for a conversation that is shortened; empty without any."""
        if not self._loaded:
            return ""
        return f"{LOADED}{json.dumps(list(self._loaded))}\nCall `skill` again where you need their instructions."


def _instructions(parsed: ParsedSkill) -> str:
    info = parsed.info
    lines = [f"Skill {info.name!r}, from {info.path}. Paths in it are relative to {info.path.parent}."]
    if info.compatibility:
        lines.append(f"It says it needs: {info.compatibility}")
    if info.allowed_tools is not None:
        lines.append(f"From now on you may use only: {', '.join(info.allowed_tools) or 'no tools'}.")
    if companions := _companions(info.path):
        lines.append(f"Files beside it: {', '.join(companions)}")
    return "\n".join(lines) + f"\n\n{parsed.body or '(the skill has no instructions)'}"


def _companions(path: Path) -> list[str]:
    """Return the names of the files beside a skill's file; those of folders end with a slash."""
    beside = sorted((entry for entry in entries_of(path.parent) if entry.name != path.name), key=attrgetter("name"))
    return [f"{entry.name}/" if os.path.isdir(entry) else entry.name for entry in beside[:MAX_COMPANIONS]]


def permits(allowed: tuple[str, ...], tool: str, arguments: Mapping[str, Any]) -> bool:
    """Return whether an entry allows the call; entries are our or other agents' names or globs, or ``Bash(git:*)``."""
    return tool in ALWAYS_ALLOWED or any(_covers(entry, tool, arguments) for entry in allowed)


def _covers(entry: str, tool: str, arguments: Mapping[str, Any]) -> bool:
    """Return whether one entry allows a call: its name matches, and its pattern the command or the first text."""
    found = _ENTRY.fullmatch(entry)
    if found is None or not fnmatchcase(tool, our_tool_name(found["name"].strip())):
        return False
    inner = found["inner"]
    if inner is None or inner.strip() in {"", "*"}:
        return True
    if isinstance(command := arguments.get("command"), str):
        return _covers_command(inner.strip(), command)
    texts = [value for value in arguments.values() if isinstance(value, str)]
    return bool(texts) and fnmatchcase(posixpath.normpath(texts[0]), inner.strip().removeprefix("./"))


def _covers_command(pattern: str, command: str) -> bool:
    """Return whether a pattern such as ``git add:*`` covers a command; it never covers a compound command."""
    if _SHELL_SYNTAX.intersection(command):
        return False
    open_ended = pattern.endswith((":*", " *"))
    try:
        wanted = shlex.split(pattern[:-2] if open_ended else pattern)
        words = shlex.split(command)
    except ValueError:
        return False
    return words[: len(wanted)] == wanted if open_ended else words == wanted
