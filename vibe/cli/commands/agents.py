"""``vibe agents``: lists the agent profiles, and the profile files that can't be used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vibe.app.engine.settings import Settings
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.core.agents.manager import load_agents
from vibe.core.agents.models import AgentProfile
from vibe.system.plain_text import one_line

SHOWN = (
    "name", "display_name", "description", "safety", "agent_type", "active_model", "system_prompt_id", "enabled_tools",
    "disabled_tools", "auto_approve", "source",
)  # fmt: skip
"""The fields of a profile in JSON output."""


def run_list(args: Arguments, env: CliEnvironment) -> None:
    """List the profiles; problems with a file go to stderr."""
    loaded = Settings(env, args.workdir, trust=args.trust).load()
    agents = load_agents(loaded, loaded.nested_projects())
    profiles = list(agents.profiles.values())
    broken = [
        {"name": name, "problems": [str(problem) for problem in error.problems]}
        for name, error in sorted(agents.broken.items())
    ]
    listed = [{name: getattr(profile, name) for name in SHOWN} for profile in profiles]
    env.answer(args, {"agents": listed, "broken": broken}, _lines(profiles))
    env.warn((*loaded.warnings, *agents.warnings))


def _lines(profiles: Sequence[AgentProfile]) -> Iterator[str]:
    width = max((len(profile.name) for profile in profiles), default=0)
    for profile in profiles:
        kind = f"{profile.agent_type.value}, {profile.safety.value}, {profile.source}"
        yield f"{profile.name:<{width}}  {one_line(f'{profile.description} ({kind})', 200)}"
