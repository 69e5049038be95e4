"""``vibe tools``: the tools an agent has, their origin and their permission."""

from __future__ import annotations

import argparse
import json

from vibe.app.engine.build import EngineRequest, build_engine
from vibe.cli.arguments import existing_folder
from vibe.cli.environment import CliEnvironment
from vibe.cli.render.event_text import one_line
from vibe.core.tools.loading import BUILTIN
from vibe.core.tools.profile_view import profile_view


def run(args: argparse.Namespace, env: CliEnvironment) -> int:
    """List them; what is wrong with a file goes to stderr."""
    workdir = existing_folder("--workdir", args.workdir, env.cwd)
    host = env.host
    engine = build_engine(host, EngineRequest(workdir=workdir, trust=args.trust))
    tools = engine.tools
    if args.agent:
        tools = profile_view(tools, engine.agents.get(args.agent), may_widen=True)
    rows = [
        {
            "name": name,
            "source": "built-in" if tools.origin(name) == BUILTIN else tools.origin(name),
            "permission": tools.get_tool_config(name).permission.value,
            "description": cls.get_description(),
        }
        for name, cls in tools.available.items()
    ]
    if args.output == "json":
        env.stdout.write(json.dumps(rows, indent=2, ensure_ascii=False) + "\n")
        return 0
    width = max((len(row["name"]) for row in rows), default=0)
    for row in rows:
        name, about = one_line(row["name"]), one_line(f"{row['description']} ({row['source']})", 200)
        env.stdout.write(f"{name:<{width}}  {row['permission']:<6}  {about}\n")
    for warning in engine.warnings:
        env.stderr.write(f"vibe: {one_line(warning, 400)}\n")
    return 0
