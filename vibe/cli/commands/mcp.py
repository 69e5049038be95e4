"""``vibe mcp``: the servers whose tools agents have here, and the server by which others have our agents."""

from __future__ import annotations

import argparse

from vibe.cli.environment import CliEnvironment


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
    from vibe.cli.commands.mcp_list import list_servers  # noqa: PLC0415  as above

    return list_servers(args, env)
