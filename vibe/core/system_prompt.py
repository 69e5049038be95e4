"""The system prompt: byte-stable for a whole conversation, so that providers can cache it."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptParts:
    """What a prompt is made of. ``base`` comes first; ``role`` is a mode's guidance, or empty."""

    base: str
    workspace: Path
    tool_prompts: Sequence[str] = ()
    role: str = ""


def load_base_prompt() -> str:
    """The base that comes with the program; reads a file, so do it before the event loop or in a thread."""
    return resources.files("vibe.core.prompts").joinpath("cli.md").read_text(encoding="utf-8")


def build_system_prompt(parts: PromptParts) -> str:
    """The prompt of one agent."""
    surroundings = f"Workspace: {parts.workspace}\nSystem: {platform.system()}"
    sections = [parts.base, parts.role, surroundings, *parts.tool_prompts]
    return "\n\n".join(section.strip() for section in sections if section.strip()) + "\n"
