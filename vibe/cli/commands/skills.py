"""``vibe skills list``: the skills an agent is offered here, and the faults of the others."""

from __future__ import annotations

from typing import Any

from vibe.cli.environment import Arguments, CliEnvironment
from vibe.core.config.loader import ConfigRequest, load_config
from vibe.core.config.trust import nested_projects
from vibe.core.guidance_loader import load_skills
from vibe.core.instructions.project_context import GuidanceRequest
from vibe.core.skills.manager import SkillInfo
from vibe.front.event_text import one_line
from vibe.front.listings import NO_SKILLS, skill_line
from vibe.system.own_places import user_home_of


def run_list(args: Arguments, env: CliEnvironment) -> None:
    """List the skills; warnings go to stderr."""
    request = ConfigRequest(home=env.home, workdir=args.workdir, environ=env.environ, trust_workdir=args.trust)
    loaded = load_config(request)
    manager = load_skills(
        GuidanceRequest(
            home=env.home,
            workdir=args.workdir,
            environ=loaded.environ,
            config=loaded.config,
            project_dir=loaded.project_dir,
            trust_workdir=args.trust,
            nested=nested_projects(env.home, args.workdir, user_home_of(loaded.environ), trust_workdir=args.trust),
        )
    )
    for warning in (*loaded.warnings, *manager.warnings):
        env.stderr.write(f"warning: {one_line(warning, 1_000)}\n")
    skills = list(manager.available.values())
    env.answer(args, [_document(info) for info in skills], map(skill_line, skills) if skills else [NO_SKILLS])


def _document(info: SkillInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "description": info.description,
        "path": str(info.path),
        "command": f"/{info.command}" if info.user_invocable else None,
        "allowed_tools": None if info.allowed_tools is None else list(info.allowed_tools),
        "license": info.license,
        "compatibility": info.compatibility,
        "metadata": dict(info.metadata),
    }
