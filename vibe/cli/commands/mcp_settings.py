"""``vibe mcp add|remove|import``: the servers in a settings file, changed; the rest of the file stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vibe.app.engine.server_settings import ServerSettings, read_servers
from vibe.app.engine.settings import Settings
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.cli.parser import CommandLineError
from vibe.front.event_text import one_line
from vibe.system.errors import UsageError

LINE_LENGTH = 400
ADDRESSES = ("http://", "https://")


def run_add(args: Arguments, env: CliEnvironment) -> None:
    """Add a server."""
    servers = _servers(args, env)
    servers.add(args.name, _entry(args))
    env.stdout.write(f"{servers.label}: {one_line(args.name)} added; `vibe mcp list` connects to it\n")


def run_remove(args: Arguments, env: CliEnvironment) -> None:
    """Remove a server."""
    servers = _servers(args, env)
    servers.remove(args.name)
    env.stdout.write(f"{servers.label}: {one_line(args.name)} removed\n")


def _servers(args: Arguments, env: CliEnvironment) -> ServerSettings:
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


def run_import(args: Arguments, env: CliEnvironment) -> int:
    """Add the servers of another agent's file, and say what was changed; exit code 1 if one was left out."""
    servers, name = _servers(args, env), args.file
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
