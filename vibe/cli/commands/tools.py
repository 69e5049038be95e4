"""``vibe tools``: the tools an agent has, their origin and their permission."""

from __future__ import annotations

import argparse

from vibe.app.engine.build import EngineRequest, build_engine
from vibe.cli.arguments import existing_folder
from vibe.cli.environment import CliEnvironment
from vibe.core.tools.manager import profile_view
from vibe.front.event_text import one_line
from vibe.front.listings import tool_lines, tool_source


def run(args: argparse.Namespace, env: CliEnvironment) -> int:
    """List them; what is wrong with a file goes to stderr."""
    workdir = existing_folder("--workdir", args.workdir, env.cwd)
    engine = build_engine(env.host, EngineRequest(workdir=workdir, trust=args.trust))
    tools = engine.tools
    if args.agent:
        tools = profile_view(tools, engine.agents.get(args.agent), may_widen=True)
    if args.output != "json":
        env.stdout.write("".join(f"{line}\n" for line in tool_lines(tools)))
        for warning in engine.warnings:
            env.stderr.write(f"vibe: {one_line(warning, 400)}\n")
        return 0
    rows = [
        {
            "name": name,
            "source": tool_source(tools, name),
            "permission": tools.get_tool_config(name).permission.value,
            "description": cls.get_description(),
        }
        for name, cls in tools.available.items()
    ]
    env.write_json(rows)
    return 0
