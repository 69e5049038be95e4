"""``vibe skills list``: lists the skills available to agents here, and problems with the others."""

from __future__ import annotations

from typing import Any

from msgspec import to_builtins

from vibe.app.engine.settings import Settings
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.core.guidance import load_skills
from vibe.core.skills.manager import SkillInfo
from vibe.front.listings import NO_SKILLS, skill_line


def run_list(args: Arguments, env: CliEnvironment) -> None:
    """List the skills; warnings go to stderr."""
    loaded = Settings(env, args.workdir, trust=args.trust).load()
    manager = load_skills(loaded, loaded.nested_projects())
    env.warn((*loaded.warnings, *manager.warnings))
    skills = list(manager.available.values())
    env.answer(args, [_document(info) for info in skills], map(skill_line, skills) if skills else [NO_SKILLS])


def _document(info: SkillInfo) -> dict[str, Any]:
    return {**to_builtins(info, enc_hook=str), "command": f"/{info.command}" if info.user_invocable else None}
