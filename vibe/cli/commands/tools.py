"""``vibe tools``: lists the tools of an agent, their origin and their permission."""

from __future__ import annotations

from vibe.app.conversation.setup import with_proposing
from vibe.app.engine.build import EngineRequest, build_engine
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.core.tools.manager import profile_view
from vibe.front.listings import tool_lines, tool_source
from vibe.front.slash.plan_proposal import ProposePlan
from vibe.system.errors import explained_by


def run_list(args: Arguments, env: CliEnvironment) -> None:
    """List the tools; problems with a file go to stderr."""
    engine = build_engine(env, EngineRequest(workdir=args.workdir, trust=args.trust))
    tools = with_proposing(engine, ProposePlan)
    if args.agent:
        with explained_by(engine.warnings):
            tools = profile_view(tools, engine.agents.get(args.agent), may_widen=True)
    rows = [
        {
            "name": name,
            "source": tool_source(tools, name),
            "permission": tools.get_tool_config(name).permission.value,
            "description": cls.get_description(),
        }
        for name, cls in tools.available.items()
    ]
    env.answer(args, rows, tool_lines(tools))
    env.warn(engine.warnings)
