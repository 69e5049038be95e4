"""``vibe mcp list``: the configured MCP servers, each after an attempt to connect, and their tools."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from functools import partial

import anyio

from vibe.app.inspect.mcp_status import McpStatus, mcp_status
from vibe.cli.arguments import existing_folder
from vibe.cli.environment import CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.cli.render.event_text import one_line
from vibe.core.tools.mcp.servers import ServerState

PROBLEM_LENGTH = 600


def run(args: argparse.Namespace, env: CliEnvironment) -> int:
    """List the servers; exit code 3 if one that is required failed."""
    workdir = existing_folder("--workdir", args.workdir, env.cwd)
    host = env.host
    status = anyio.run(partial(mcp_status, host, workdir, trust=args.trust))
    for warning in status.warnings:
        env.stderr.write(f"vibe: warning: {one_line(warning, PROBLEM_LENGTH)}\n")
    if args.output == "json":
        servers = [asdict(server) for server in status.servers]
        env.stdout.write(json.dumps({"servers": servers}, indent=2, ensure_ascii=False) + "\n")
    else:
        _print(status, env)
    lacking = any(server.required and server.status == "failed" for server in status.servers)
    return ExitCode.ENVIRONMENT if lacking else ExitCode.DONE


def _print(status: McpStatus, env: CliEnvironment) -> None:
    if not status.servers:
        env.stdout.write("no MCP servers are configured: see [[mcp_servers]] in docs/guide/mcp.md\n")
    for server in status.servers:
        env.stdout.write("\n".join(_lines(server)) + "\n")


def _lines(server: ServerState) -> list[str]:
    count = f", {len(server.tools)} tools" if server.status == "ready" else ""
    lines = [one_line(f"{server.name} {server.transport} {server.status}{count}")]
    if server.problem:
        lines.append(f"  {one_line(server.problem, PROBLEM_LENGTH)}")
    lines += [f"  {one_line(name)}" for name in server.tools]
    return [*lines, *(f"  not offered: {one_line(problem)}" for problem in server.unusable)]
