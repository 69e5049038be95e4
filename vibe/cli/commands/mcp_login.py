"""``vibe mcp login|logout``: signing in to servers on the network, and out."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial

import anyio
from anyio import to_thread

from vibe.app.engine.settings import Settings
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.cli.signals import cancelled_by_signals
from vibe.core.config.loader import LoadedConfig
from vibe.core.config.models import McpServerConfig, McpTransport
from vibe.core.config.paths import VibePaths
from vibe.core.tools.mcp.login import SignInWay, signed_in
from vibe.core.tools.mcp.settings import endpoint_of
from vibe.core.tools.mcp.sign_ins import SignInStore
from vibe.front.event_text import one_line
from vibe.system.errors import UsageError
from vibe.system.keyring import keyring_problem
from vibe.system.programs import guarded, open_browser

LINE_LENGTH = 400
DISPLAYS = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")


def run_login(args: Arguments, env: CliEnvironment) -> int:
    """Sign in to a server in a browser."""
    return anyio.run(_login, args, env)


def run_logout(args: Arguments, env: CliEnvironment) -> int:
    """Delete the tokens of a server, have it revoke them, and say what became of them."""
    _, config = _server(args, env)
    sign_in, name = _store(env).drop(config.url), one_line(args.name)
    if sign_in is None:
        raise _no_sign_in(args.name, "is not signed in: nothing to forget")
    from vibe.core.tools.mcp.token_auth import revocation_problem  # noqa: PLC0415  it loads httpx2

    problem = revocation_problem(sign_in)
    became = {"": "revoked", None: "forgotten here; it revokes none, so they end by themselves"}
    env.stdout.write(f"signed out of {name}: its tokens are {became.get(problem, 'forgotten here')}\n")
    if not problem:
        return ExitCode.DONE
    env.stderr.write(
        f"vibe: the tokens of {name} are not revoked: {one_line(problem, LINE_LENGTH)}; they end by themselves, or in "
        "your account there\n"
    )
    return ExitCode.ENVIRONMENT


async def _login(args: Arguments, env: CliEnvironment) -> int:
    name = one_line(args.name)
    environ = guarded(env.environ, [args.workdir])

    async def show(address: str) -> None:
        env.stdout.write(f"To sign in to {name}, open this address in a browser on this machine:\n\n  {address}\n\n")
        env.stdout.flush()
        if not args.no_browser and _has_browser(environ):
            await to_thread.run_sync(open_browser, address, environ, abandon_on_cancel=True)

    def notice(sentence: str) -> None:
        env.stderr.write(f"vibe: {one_line(sentence, LINE_LENGTH)}\n")
        env.stderr.flush()

    way = SignInWay(show=show, notice=notice, client_id=args.client_id, port=args.port, patience_seconds=args.timeout)
    kept = ""
    async with cancelled_by_signals(env) as signals:
        kept = await _signed_in(args, env, way)
    if not kept:
        notice(f"not signed in to {name}: it was interrupted")
        return signals.exit_code or ExitCode.INTERRUPTED
    place = one_line(kept, LINE_LENGTH)
    env.stdout.write(f"signed in to {name}; its tokens are kept {place}\n`vibe mcp list` connects to it\n")
    return ExitCode.DONE


async def _signed_in(args: Arguments, env: CliEnvironment, way: SignInWay) -> str:
    """Have the user sign in, and return where that is kept; a sign-in from before is there until then."""
    store, (loaded, config) = _store(env), await to_thread.run_sync(_server, args, env)
    endpoint = endpoint_of(config, loaded.environ, args.workdir)
    if endpoint.has_key:
        raise _no_sign_in(args.name, "has its own key: remove api_key_env or the Authorization header first")
    await to_thread.run_sync(store.find, endpoint.url)  # a file that is damaged is told before, not after
    sign_in = await signed_in(args.name, endpoint, way)
    problem = await to_thread.run_sync(keyring_problem)
    await to_thread.run_sync(partial(store.put, endpoint.url, sign_in, in_keyring=problem is None))
    return f"in {store.path}, for you alone to read ({problem})" if problem else "in the keyring"


def _store(env: CliEnvironment) -> SignInStore:
    return SignInStore(VibePaths(env.home).sign_ins)


def _server(args: Arguments, env: CliEnvironment) -> tuple[LoadedConfig, McpServerConfig]:
    """The settings of the folder, and those of the server that is named.

    Raises:
        UsageError: there is no such server, or it is none on the network.
    """
    loaded = Settings(env, args.workdir, trust=args.trust).load()
    configs = {config.name: config for config in loaded.config.mcp_servers}
    config = configs.get(args.name)
    if config is None:
        there = f"there are: {', '.join(configs)}" if configs else "none are; add one with `vibe mcp add`"
        raise _no_sign_in(args.name, f"is not configured; {there}")
    if config.transport is McpTransport.STDIO:
        raise _no_sign_in(args.name, "is a command on this machine, which needs no sign-in")
    return loaded, config


def _no_sign_in(server: str, problem: str) -> UsageError:
    return UsageError(f"MCP server {server!r} {problem}")


def _has_browser(environ: Mapping[str, str]) -> bool:
    """Return whether a browser has a screen to open on, so that none opens in the terminal we write to."""
    return sys.platform == "darwin" or any(environ.get(variable) for variable in DISPLAYS)
