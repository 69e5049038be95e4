"""``vibe mcp login|logout``: signing in to servers on the network, and out."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import anyio
from anyio import CancelScope, to_thread

from vibe.app.engine.server_sign_in import ServerSignIns
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.cli.signals import handled_signals
from vibe.core.tools.mcp.login import SignInWay
from vibe.front.event_text import one_line
from vibe.system.programs import guarded, open_browser

LINE_LENGTH = 400
DISPLAYS = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")


def run_login(args: Arguments, env: CliEnvironment) -> int:
    """Sign in to a server in a browser."""
    return anyio.run(_login, args, env)


def run_logout(args: Arguments, env: CliEnvironment) -> int:
    """Delete the tokens of a server, and say what became of them."""
    sign_ins = ServerSignIns(env.host, args.workdir, trust=args.trust)
    problem, name = sign_ins.sign_out(args.name), one_line(args.name)
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
    sign_ins = ServerSignIns(env.host, args.workdir, trust=args.trust)
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
    kept, code = "", int(ExitCode.INTERRUPTED)
    with CancelScope() as scope:
        async with handled_signals(env.host, lambda _which, _count: scope.cancel()) as signals:
            try:
                kept = await sign_ins.sign_in(args.name, way)
            finally:
                code = signals.exit_code or code
    if not kept:
        notice(f"not signed in to {name}: it was interrupted")
        return code
    place = one_line(kept, LINE_LENGTH)
    env.stdout.write(f"signed in to {name}; its tokens are kept {place}\n`vibe mcp list` connects to it\n")
    return ExitCode.DONE


def _has_browser(environ: Mapping[str, str]) -> bool:
    """Return whether a browser has a screen to open on, so that none opens in the terminal we write to."""
    return sys.platform == "darwin" or any(environ.get(variable) for variable in DISPLAYS)
