"""Skills, and their errors.

VibeError
└── UsageError
    ├── NoSuchSkillError       no skill of that name is offered
    └── SkillFileError         a SKILL.md that can't be used
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from vibe.core.errors import UsageError

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
        close = get_close_matches(name, known, n=2)
        hint = f"did you mean {' or '.join(map(repr, close))}?" if close else f"there are: {', '.join(known) or 'none'}"
        super().__init__(f"there is no skill {name!r}; {hint}")
        self.name = name


class SkillFileError(UsageError):
    """A skill's file can't be used."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: the skill is not loaded: {problem}")
        self.path = path
        self.problem = problem
