"""``vibe mcp serve``: offer this program to other agents, as a server of the Model Context Protocol."""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from signal import Signals

import anyio
from anyio import CancelScope, create_task_group

from vibe.cli.environment import CliEnvironment
from vibe.cli.parser import CommandLineError
from vibe.cli.process_end import ProcessEnd
from vibe.cli.signals import handled_signals
from vibe.core.system.line_wire import claimed_wire
from vibe.mcp_server.call_vibe import CallVibe
from vibe.mcp_server.engine_room import EngineRoom
from vibe.mcp_server.greeting import Greeting
from vibe.mcp_server.plan_tools import PlanDecideTool, PlanResultTool, PlanRunTool, PlanStatusTool
from vibe.mcp_server.protocol import load_server
from vibe.mcp_server.stdio import LoadServer, serve_stdio
from vibe.mcp_server.toolbox import Toolbox

TOKEN_VARIABLE = "VIBE_MCP_TOKEN"  # noqa: S105  the name of one


def serve(args: argparse.Namespace, env: CliEnvironment) -> int:
    """Serve until the client is gone, or a signal comes; the exit code is 0, or that of the signal."""
    room = EngineRoom(env.host, auto_approve=args.auto_approve)
    tools = [CallVibe(room), PlanRunTool(room), PlanStatusTool(room), PlanDecideTool(room), PlanResultTool(room)]
    load = partial(load_server, Toolbox(tools), room)
    if args.http is not None:
        return _serve_http(args.http, env, room, load)
    if env.stdin.isatty():
        raise CommandLineError(
            "`vibe mcp serve` speaks a protocol, not with people: have an MCP client start it, or use --http PORT"
        )
    with claimed_wire() as wire:
        return anyio.run(_served, env, room, partial(serve_stdio, wire, Greeting(tools, room.prepare), load))


def _serve_http(address: tuple[str, int], env: CliEnvironment, room: EngineRoom, load: LoadServer) -> int:
    """Listen; where and by which token is said on standard output."""
    from vibe.mcp_server.http import listening, serve_http, url_of  # noqa: PLC0415  most clients start us themselves

    given = env.environ.get(TOKEN_VARIABLE, "")
    token = given or secrets.token_urlsafe(24)
    with listening(*address) as listener:
        server = load()
        env.stdout.write(f"{url_of(listener)}\n{'' if given else f'Authorization: Bearer {token}' + chr(10)}")
        env.stdout.flush()
        room.prepare()
        return anyio.run(_served, env, room, partial(serve_http, server, listener, token, room.leave))


async def _served(env: CliEnvironment, room: EngineRoom, serve_clients: Callable[[], Awaitable[None]]) -> int:
    """Keep the engine while clients are served, and end both."""
    end = ProcessEnd(is_ours=env.owns_process)
    with CancelScope() as scope:

        def on_signal(_which: Signals, _count: int) -> None:
            scope.cancel()

        async with handled_signals(env.host, on_signal) as signals, create_task_group() as group:
            group.start_soon(room.keep)
            try:
                await serve_clients()
            finally:
                end.is_near(signals.exit_code or 0)
                room.close()
                group.cancel_scope.cancel()
    return end.code
