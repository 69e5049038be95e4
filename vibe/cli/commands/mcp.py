"""``vibe mcp list|add|remove|import``: the servers whose tools agents have here, and their settings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import anyio
from msgspec import to_builtins

from vibe.app.engine.server_settings import ServerSettings, read_servers
from vibe.app.engine.settings import Settings
from vibe.app.inspect.mcp_status import mcp_status
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.cli.parser import CommandLineError
from vibe.front.event_text import one_line
from vibe.front.listings import NO_SERVERS, PROBLEM_LENGTH, server_lines
from vibe.system.errors import UsageError

LINE_LENGTH = 400
ADDRESSES = ("http://", "https://")


def run_list(args: Arguments, env: CliEnvironment) -> int:
    """List the servers; exit code 1 if one failed, 3 if it is required."""
    status = anyio.run(partial(mcp_status, env.host, args.workdir, trust=args.trust))
    for warning in status.warnings:
        env.stderr.write(f"vibe: warning: {one_line(warning, PROBLEM_LENGTH)}\n")
    shown = [server_lines(server) for server in status.servers] or [[NO_SERVERS]]
    document = {"servers": [to_builtins(server) for server in status.servers]}
    env.answer(args, document, (line for lines in shown for line in lines))
    failed = {server.required for server in status.servers if server.status == "failed"}
    return ExitCode.ENVIRONMENT if True in failed else ExitCode.FAILED if failed else ExitCode.DONE


def run_add(args: Arguments, env: CliEnvironment) -> None:
    """Add a server."""
    servers = _settings(args, env)
    servers.add(args.name, _entry(args))
    env.stdout.write(f"{servers.label}: {one_line(args.name)} added; `vibe mcp list` connects to it\n")


def run_remove(args: Arguments, env: CliEnvironment) -> None:
    """Remove a server."""
    servers = _settings(args, env)
    servers.remove(args.name)
    env.stdout.write(f"{servers.label}: {one_line(args.name)} removed\n")


def run_import(args: Arguments, env: CliEnvironment) -> int:
    """Add the servers of another agent's file, and say what was changed; exit code 1 if one was left out."""
    servers, name = _settings(args, env), args.file
    path = env.cwd / Path(name).expanduser()
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
        raise UsageError(f"{name} can't be read ({why}): name the file with the servers") from error
    left_out = 0
    for found in read_servers(text, name):
        problem = found.problem
        if not problem:
            try:
                servers.add(found.name, found.entry)
            except UsageError as error:
                problem = str(error)
        if problem:
            left_out += 1
            env.stderr.write(f"vibe: {one_line(found.name)} is left out: {one_line(problem, LINE_LENGTH)}\n")
        else:
            ignored = f" (without {', '.join(map(one_line, found.ignored))})" if found.ignored else ""
            env.stdout.write(f"{servers.label}: {one_line(found.name)} added{ignored}\n")
    return ExitCode.FAILED if left_out else ExitCode.DONE


def _settings(args: Arguments, env: CliEnvironment) -> ServerSettings:
    return ServerSettings(Settings(env.host, args.workdir), project=args.project)


def _entry(args: Arguments) -> dict[str, object]:
    """Return the server that the words describe.

    Raises:
        CommandLineError: they don't go together.
    """
    target: list[str] = args.target
    if not target[0].startswith(ADDRESSES):
        if args.header or args.key_env:
            raise CommandLineError(f"--header and --key-env are for a server with an address: {target[0]!r} is none")
        env = _pairs("--env", args.env)
        return {"transport": "stdio", "command": target, **({"env": env} if env else {})}
    if len(target) > 1 or args.env:
        raise CommandLineError(f"{target[0]}: an address takes no --env and no further words")
    headers = _pairs("--header", args.header)
    key = {"api_key_env": args.key_env} if args.key_env else {}
    return {"transport": "http", "url": target[0], **({"headers": headers} if headers else {}), **key}


def _pairs(flag: str, given: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise CommandLineError(f"{flag} {name}: write it as {flag} NAME=VALUE")
        found[name] = value
    return found
