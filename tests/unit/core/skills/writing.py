"""Skill folders on disk."""

from __future__ import annotations

from pathlib import Path


def write_skill(folder: Path, name: str, text: str | None = None, *, tools: str = "", body: str = "Do it.") -> Path:
    """Write a skill's folder below ``folder``. ``text`` is the whole file; without it, a valid one is written."""
    path = folder / name / "SKILL.md"
    path.parent.mkdir(parents=True)
    allowed = f"allowed-tools: {tools}\n" if tools else ""
    path.write_text(text or f"---\nname: {name}\ndescription: What {name} is for\n{allowed}---\n\n{body}\n")
    return path
