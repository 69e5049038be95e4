"""``vibe mcp serve``: serves vibe to other agents over the Model Context Protocol."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from functools import partial

from anyio import create_task_group

from vibe.cli.environment import Arguments, CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.cli.parser import CommandLineError
from vibe.cli.signals import ProcessEnd, cancelled_by_signals
from vibe.mcp_server.protocol import LazyRuntime, load_server, serve_http, serve_stdio, url_of
from vibe.system.awake_loop import run_awake
from vibe.system.line_wire import claimed_wire
from vibe.system.loopback import listening

TOKEN_VARIABLE = "VIBE_MCP_TOKEN"  # noqa: S105  the name of a variable


def run_serve(args: Arguments, env: CliEnvironment) -> int:
    """Serve until the client is gone or a signal arrives; the exit code is 0 or the signal's."""
    runtime = LazyRuntime(env, auto_approve=args.auto_approve)
    if args.http is not None:
        return _serve_http(args.http, env, runtime)
    if env.stdin.isatty():
        raise CommandLineError("`vibe mcp serve` is started by an MCP client; to start it yourself, use --http PORT")
    with claimed_wire() as wire:
        return run_awake(_served, env, runtime, partial(serve_stdio, wire, runtime))


def _serve_http(address: tuple[str, int], env: CliEnvironment, runtime: LazyRuntime) -> int:
    """Listen for HTTP; the address and the token are printed on standard output."""
    given = env.environ.get(TOKEN_VARIABLE, "")
    token = given or secrets.token_urlsafe(24)
    with listening(*address, "--http") as listener:
        server = load_server(runtime)
        env.write_lines([url_of(listener), *([] if given else [f"Authorization: Bearer {token}"])])
        runtime.wanted.set()
        return run_awake(_served, env, runtime, partial(serve_http, server, listener, token, runtime.disconnected))


async def _served(env: CliEnvironment, runtime: LazyRuntime, serve_clients: Callable[[], Awaitable[None]]) -> int:
    """Keep the engine running while clients are served, then end both."""
    end = ProcessEnd(is_ours=env.owns_process)
    async with cancelled_by_signals(env) as signals, create_task_group() as group:
        group.start_soon(runtime.run)
        code = ExitCode.FAILED
        try:
            await serve_clients()
            code = ExitCode.DONE
        finally:
            end.is_near(signals.exit_code or code)
            runtime.close()
            group.cancel_scope.cancel()
    return end.code
