"""AgentSkills: one agent's skills: what it has loaded, and what that leaves it of its tools."""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from vibe.core.config.patterns import our_tool_name
from vibe.core.skills.manager import SkillManager
from vibe.core.skills.models import NoSuchSkillError, ParsedSkill, SkillInfo

INVOKED = "The user started the skill {name}."
LOADED = "Skills loaded in this conversation: "
MAX_COMPANIONS = 50
"""The most files beside a ``SKILL.md`` that are named."""
ALWAYS_ALLOWED = frozenset({"skill", "todo"})
"""They reach nothing: the one can only restrict further, the other is the agent's own notebook."""

_ENTRY = re.compile(r"(?P<name>[^()]+)(?:\((?P<inner>.*)\))?")
_SHELL_SYNTAX = frozenset(";&|<>()$`\n\\{}")


class AgentSkills:
    """Loads skills for one agent. Restrictions add up: a call must be covered by every loaded skill that has any.

    ``parent`` are the skills of the agent that started this one: what restricts that restricts this one too.
    """

    def __init__(self, manager: SkillManager, parent: AgentSkills | None = None) -> None:
        self.manager = manager
        self._parent = parent
        self._loaded: dict[str, tuple[str, ...] | None] = {}

    def load(self, name: str) -> str:
        """The instructions of a skill as the model reads them; its restriction holds from now on. Blocks.

        Raises:
            NoSuchSkillError, SkillFileError: it can't be loaded, or only a person may start it.
        """
        if not self.manager.get(name).model_invocable:
            known = [info.name for info in self.manager.available.values() if info.model_invocable]
            raise NoSuchSkillError(name, known)
        return self._load(name)

    def _load(self, name: str) -> str:
        parsed = self.manager.load(name)
        self._restrict(parsed.info)
        return _told(parsed)

    def invoked(self, prompt: str) -> str | None:
        """The prompt a slash command stands for, with the skill loaded; None if ``prompt`` is none. Blocks.

        Raises:
            SkillFileError: the skill can't be loaded.
        """
        if not prompt.startswith("/"):
            return None
        word, _, rest = prompt[1:].partition(" ")
        info = self.manager.commands.get(word.casefold())
        if info is None:
            return None
        request = rest.strip() or "Do what this skill is for."
        begun = f"The user started the skill {info.name!r}. Follow its instructions."
        return f"{begun}\n\n{self._load(info.name)}\n\n{request}"

    def refusal(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        """Return why the loaded skills don't allow a call; None if they do."""
        for name, allowed in self._loaded.items():
            if allowed is not None and not permits(allowed, tool, arguments):
                return f"the skill {name!r} restricts this agent to {', '.join(allowed) or 'no tools'}"
        return self._parent.refusal(tool, arguments) if self._parent is not None else None

    def restore(self, names: Iterable[str]) -> None:
        """Hold the restrictions of skills a resumed conversation had loaded; those that are gone can't be."""
        for name in names:
            info = self.manager.available.get(name)
            if info is not None:
                self._restrict(info)

    def reminder(self) -> str:
        """Return what an agent must still know of its loaded skills when its conversation is shortened."""
        if not self._loaded:
            return ""
        return f"{LOADED}{json.dumps(list(self._loaded))}\nCall `skill` again where you need their instructions."

    def _restrict(self, info: SkillInfo) -> None:
        self._loaded[info.name] = info.allowed_tools


def _told(parsed: ParsedSkill) -> str:
    info = parsed.info
    lines = [f"Skill {info.name!r}, from {info.path}. Paths in it are relative to {info.path.parent}."]
    if info.compatibility:
        lines.append(f"It says it needs: {info.compatibility}")
    if info.allowed_tools is not None:
        lines.append(f"From now on you may use only: {', '.join(info.allowed_tools) or 'no tools'}.")
    companions = _companions(info.path)
    if companions:
        lines.append(f"Files beside it: {', '.join(companions)}")
    return "\n".join(lines) + f"\n\n{parsed.body or '(the skill has no instructions)'}"


def _companions(path: Path) -> list[str]:
    """Names of what lies beside a skill's file, folders with a slash."""
    try:
        entries = sorted(entry for entry in path.parent.iterdir() if entry.name != path.name)
    except OSError:
        return []
    return [f"{entry.name}/" if entry.is_dir() else entry.name for entry in entries[:MAX_COMPANIONS]]


def permits(allowed: tuple[str, ...], tool: str, arguments: Mapping[str, Any]) -> bool:
    """Return whether an entry covers the call; names and globs of either vocabulary, ``Bash(git:*)`` included."""
    return tool in ALWAYS_ALLOWED or any(_covers(entry, tool, arguments) for entry in allowed)


def _covers(entry: str, tool: str, arguments: Mapping[str, Any]) -> bool:
    found = _ENTRY.fullmatch(entry)
    if found is None or not fnmatchcase(tool, our_tool_name(found["name"].strip())):
        return False
    inner = found["inner"]
    if inner is None or inner.strip() in {"", "*"}:
        return True
    command = arguments.get("command")
    if isinstance(command, str):
        return _covers_command(inner.strip(), command)
    texts = [value for value in arguments.values() if isinstance(value, str)]
    return bool(texts) and fnmatchcase(posixpath.normpath(texts[0]), inner.strip().removeprefix("./"))


def _covers_command(pattern: str, command: str) -> bool:
    """Return whether a single command begins with the words of ``git add:*``; anything compound is not covered."""
    if _SHELL_SYNTAX.intersection(command):
        return False
    open_ended = pattern.endswith((":*", " *"))
    try:
        wanted = shlex.split(pattern[:-2] if open_ended else pattern)
        words = shlex.split(command)
    except ValueError:
        return False
    return words[: len(wanted)] == wanted if open_ended else words == wanted
