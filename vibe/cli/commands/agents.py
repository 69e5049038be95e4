"""``vibe agents``: the agent profiles there are, and the files that can't be used."""

from __future__ import annotations

import argparse

from vibe.app.engine.build import load_agents
from vibe.cli.arguments import existing_folder
from vibe.cli.environment import CliEnvironment
from vibe.core.config.loader import ConfigRequest, load_config
from vibe.core.config.trust import nested_projects
from vibe.front.event_text import one_line
from vibe.system.own_places import user_home_of

SHOWN = (
    "name", "display_name", "description", "safety", "agent_type", "active_model", "system_prompt_id", "enabled_tools",
    "disabled_tools", "auto_approve", "source",
)  # fmt: skip
"""Fields of a profile that programs get."""


def run(args: argparse.Namespace, env: CliEnvironment) -> int:
    """List them; what is wrong with a file goes to stderr."""
    workdir = existing_folder("--workdir", args.workdir, env.cwd)
    loaded = load_config(ConfigRequest(home=env.home, workdir=workdir, environ=env.environ, trust_workdir=args.trust))
    user_home = user_home_of(loaded.environ)
    agents = load_agents(env.home, loaded, nested_projects(env.home, workdir, user_home, trust_workdir=args.trust))
    profiles = list(agents.profiles.values())
    if args.output == "json":
        broken = [
            {"name": name, "problems": [str(problem) for problem in error.problems]}
            for name, error in sorted(agents.broken.items())
        ]
        listed = [{name: getattr(profile, name) for name in SHOWN} for profile in profiles]
        env.write_json({"agents": listed, "broken": broken})
        return 0
    width = max((len(profile.name) for profile in profiles), default=0)
    for profile in profiles:
        kind = f"{profile.agent_type.value}, {profile.safety.value}, {profile.source}"
        env.stdout.write(f"{profile.name:<{width}}  {one_line(f'{profile.description} ({kind})', 200)}\n")
    for warning in (*loaded.warnings, *agents.warnings):
        env.stderr.write(f"vibe: {one_line(warning, 400)}\n")
    return 0
