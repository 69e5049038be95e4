"""Skills, and their errors.

VibeError
└── UsageError
    ├── NoSuchSkillError       no skill of that name is offered
    └── SkillFileError         a SKILL.md that can't be used
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vibe.core.errors import UsageError
from vibe.core.plain_text import closest, did_you_mean

SKILL_FILE = "SKILL.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillInfo:
    """The frontmatter of one skill. ``path`` is its ``SKILL.md``; ``allowed_tools`` None: it restricts nothing."""

    name: str
    description: str
    path: Path
    license: str | None = None
    compatibility: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    allowed_tools: tuple[str, ...] | None = None
    user_invocable: bool = True
    model_invocable: bool = True
    """False: only a person starts it."""

    @property
    def command(self) -> str:
        """The name as a slash command: lower case, hyphens for spaces."""
        return "-".join(self.name.casefold().split())


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedSkill:
    """A skill's file: its frontmatter, the text below it, and what is odd about it."""

    info: SkillInfo
    body: str
    warnings: tuple[str, ...] = ()


class NoSuchSkillError(UsageError):
    """No skill of that name."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        hint = did_you_mean(closest(name, known, most=2), f"available: {', '.join(known) or 'none'}")
        super().__init__(f"unknown skill {name!r}; {hint}")
        self.name = name


class SkillFileError(UsageError):
    """A skill's file can't be used."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: the skill is not loaded: {problem}")
        self.path = path
        self.problem = problem
