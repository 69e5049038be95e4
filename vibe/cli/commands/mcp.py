"""``vibe mcp list``: the servers whose tools agents have here."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial

import anyio

from vibe.app.inspect.mcp_status import mcp_status
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.front.event_text import one_line
from vibe.front.listings import NO_SERVERS, PROBLEM_LENGTH, server_lines


def run_list(args: Arguments, env: CliEnvironment) -> int:
    """List the servers; exit code 1 if one failed, 3 if it is required."""
    status = anyio.run(partial(mcp_status, env.host, args.workdir, trust=args.trust))
    for warning in status.warnings:
        env.stderr.write(f"vibe: warning: {one_line(warning, PROBLEM_LENGTH)}\n")
    shown = [server_lines(server) for server in status.servers] or [[NO_SERVERS]]
    document = {"servers": [asdict(server) for server in status.servers]}
    env.answer(args, document, (line for lines in shown for line in lines))
    failed = {server.required for server in status.servers if server.status == "failed"}
    return ExitCode.ENVIRONMENT if True in failed else ExitCode.FAILED if failed else ExitCode.DONE
