"""``vibe mcp``: the servers whose tools agents have here, and the server by which others have our agents."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from functools import partial

import anyio

from vibe.app.inspect.mcp_status import mcp_status
from vibe.cli.arguments import existing_folder
from vibe.cli.environment import CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.front.event_text import one_line
from vibe.front.listings import NO_SERVERS, PROBLEM_LENGTH, server_lines


def list_servers(args: argparse.Namespace, env: CliEnvironment) -> int:
    """List the servers; exit code 1 if one failed, 3 if it is required."""
    workdir = existing_folder("--workdir", args.workdir, env.cwd)
    status = anyio.run(partial(mcp_status, env.host, workdir, trust=args.trust))
    for warning in status.warnings:
        env.stderr.write(f"vibe: warning: {one_line(warning, PROBLEM_LENGTH)}\n")
    if args.output == "json":
        env.write_json({"servers": [asdict(server) for server in status.servers]})
    else:
        shown = [server_lines(server) for server in status.servers] or [[NO_SERVERS]]
        env.stdout.writelines(f"{line}\n" for lines in shown for line in lines)
    failed = {server.required for server in status.servers if server.status == "failed"}
    return ExitCode.ENVIRONMENT if True in failed else ExitCode.FAILED if failed else ExitCode.DONE


def run(args: argparse.Namespace, env: CliEnvironment) -> int:
    """Carry out one of its commands."""
    if args.mcp_command == "serve":
        from vibe.cli.commands.mcp_serve import serve  # noqa: PLC0415  it must start fast

        return serve(args, env)
    if args.mcp_command in {"login", "logout"}:
        from vibe.cli.commands.mcp_login import sign_in_or_out  # noqa: PLC0415  as above

        return sign_in_or_out(args, env)
    if args.mcp_command != "list":
        from vibe.cli.commands.mcp_settings import change_servers  # noqa: PLC0415  as above

        return change_servers(args, env)

    return list_servers(args, env)
