"""``vibe mcp list|add|remove|import|login|logout``: manages the MCP servers whose tools agents have here."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Set as AbstractSet
from functools import partial
from itertools import chain, count
from typing import Any, cast

import anyio
from msgspec import Struct, field, structs, to_builtins

from vibe.app.engine.build import Engine, EngineRequest, build_engine
from vibe.app.engine.host import Host
from vibe.app.engine.settings import Settings
from vibe.app.engine.tool_servers import servers_of
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.cli.parser import CommandLineError, pairs
from vibe.cli.piped import read_text
from vibe.cli.signals import cancelled_by_signals
from vibe.core.config.loader import LoadedConfig
from vibe.core.config.models import McpServerConfig, McpTransport
from vibe.core.config.paths import VibePaths
from vibe.core.config.writer import ConfigWriter
from vibe.core.schemas import list_of, table_of
from vibe.core.tools.mcp.client import ONLY_EDITORS, REFERENCE, endpoint_of
from vibe.core.tools.mcp.connection import ServerState
from vibe.core.tools.mcp.login import SignInSetup, run_sign_in
from vibe.core.tools.mcp.sign_ins import SignInStore
from vibe.front.listings import NO_SERVERS, server_lines
from vibe.system.errors import UsageError
from vibe.system.keyring import keyring_problem
from vibe.system.plain_text import one_line
from vibe.system.programs import guarded, open_browser

GROUP = "mcp_servers"
TABLES = ("mcpServers", "servers", "context_servers")
"""The name of the table of servers in other agents' files."""
_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])')
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class ForeignServer(Struct, frozen=True, kw_only=True):
    """A server in another agent's file, as an ``entry`` of ours; ``problem`` says why it can't be one.

    ``ignored`` are fields that mean nothing here.
    """

    name: str
    entry: Mapping[str, Any] = field(default_factory=dict[str, Any])
    ignored: tuple[str, ...] = ()
    problem: str = ""


def _add(servers: ConfigWriter, name: str, entry: Mapping[str, Any]) -> None:
    """Add a server to a settings file without starting it.

    Raises:
        UsageError: the name is invalid or already taken.
        ConfigError, EnvironmentFailure: the file or the entry is wrong, or the file can't be written.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name[:80]!r} is not a server name: use letters, digits, `_`, `.` and `-`, at most 64")
    if name in _names(servers):
        other = f"run `vibe mcp remove {name}` first, or choose another name"
        raise UsageError(f"{servers.label} already has a server {name!r}: {other}")
    servers.add_entry(GROUP, {"name": name, **entry})


def _names(servers: ConfigWriter) -> list[str]:
    try:
        document = tomllib.loads(servers.text())
    except (ValueError, RecursionError):  # the next change to the file reports it, with the line
        return []
    return [str(table_of(entry).get("name")) for entry in list_of(document.get(GROUP))]


def read_servers(text: str, label: str) -> Iterator[ForeignServer]:
    """Yield the servers in a JSON file such as ``.mcp.json``.

    Raises:
        UsageError: the file is no JSON, or lists no servers.
    """
    for what in (_COMMENT, _LAST_COMMA):  # VS Code's own template has both
        text = what.sub(lambda found: found[1] or "", text)
    try:
        document: Any = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{label} is not valid JSON ({error}): correct it first") from error
    fields = table_of(document)
    fields = table_of(fields.get("mcp")) | fields  # the file may be an editor's complete settings
    found = next((fields[name] for name in TABLES if isinstance(fields.get(name), dict)), None)
    if found is None:
        raise UsageError(f"{label} lists no servers: it has no object {' or '.join(TABLES)}")
    names: set[str] = set()
    for name, given in cast("dict[str, Any]", found).items():
        names.add(plain := _plain(name, names | (found.keys() - {name})))
        yield _foreign(plain, given)


def _plain(name: str, taken: AbstractSet[str]) -> str:
    """Return a valid server name, with hyphens for other characters, and a number appended if the name is taken."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.")[:64] or name
    several = (f"{plain[:60]}-{number}" for number in count(2))
    return next(one for one in chain([plain], several) if one not in taken)


def _foreign(name: str, given: Any) -> ForeignServer:
    if not isinstance(given, dict):
        return ForeignServer(name=name, problem="it is not an object")
    table = cast("dict[str, Any]", given)
    kind = table.get("type") or table.get("transport") or ("http" if "url" in table else "stdio")
    if kind == "stdio":
        kept = {key: table[key] for key in ("command", "args", "env") if table.get(key)}
    elif kind in {"http", "streamable-http", "streamableHttp"}:
        kind, kept = "http", {key: table[key] for key in ("url", "headers") if table.get(key)}
    else:
        return ForeignServer(name=name, problem=f"its transport {str(kind)[:40]!r} is not supported: use stdio or http")
    for used in _VARIABLE.finditer(json.dumps(kept)):
        if REFERENCE.fullmatch(used[0]) and used[1] not in ONLY_EDITORS:
            continue
        problem = f"it uses {used[0][:40]}, which only its own editor knows: write a variable, ${{NAME}}"
        return ForeignServer(name=name, problem=problem)
    for key in ("env", "headers"):
        if isinstance(kept.get(key), dict):
            kept[key] = {name: _written(value) for name, value in kept[key].items() if value is not None}
    if isinstance(kept.get("args"), list):
        kept["args"] = [_written(value) for value in kept["args"]]
    if table.get("disabled") is True or table.get("enabled") is False:
        kept["disabled"] = True
    understood = {"type", "transport", "disabled", "enabled", *kept}
    ignored = tuple(key for key in table if key not in understood and table[key])
    return ForeignServer(name=name, entry={"transport": kind, **kept}, ignored=ignored)


def _written(value: Any) -> str:
    """Return a JSON number or boolean as the text it has in an environment variable."""
    return value if isinstance(value, str) else json.dumps(value)


LINE_LENGTH = 400


def run_list(args: Arguments, env: CliEnvironment) -> int:
    """List the servers; the exit code is 1 if one failed, and 3 if a required one failed."""
    engine = build_engine(env, EngineRequest(workdir=args.workdir, trust=args.trust))
    servers = anyio.run(_connected, engine, env)
    env.warn(engine.loaded.warnings)
    shown = [server_lines(server) for server in servers] or [[NO_SERVERS]]
    document = {"servers": [to_builtins(server) for server in servers]}
    env.answer(args, document, (line for lines in shown for line in lines))
    failed = {server.required for server in servers if server.status == "failed"}
    return ExitCode.ENVIRONMENT if True in failed else ExitCode.FAILED if failed else ExitCode.DONE


async def _connected(engine: Engine, host: Host) -> list[ServerState]:
    """Connect to all enabled servers concurrently, disconnect, and return the state of every configured server."""
    servers = servers_of(engine, host, engine.request.workdir, engine.config.mcp_servers)
    async with servers.running():
        await servers.wait_ready(strict=False)
        states, origins = servers.states(), engine.loaded.origins
    return [structs.replace(state, origin=origins.get(f"mcp_servers[{state.name}].name", "")) for state in states]


def run_add(args: Arguments, env: CliEnvironment) -> None:
    """Add a server."""
    servers = _file(args, env)
    _add(servers, args.name, _entry(args))
    env.stdout.write(f"{servers.label}: {one_line(args.name)} added; `vibe mcp list` connects to it\n")


def run_remove(args: Arguments, env: CliEnvironment) -> None:
    """Remove a server."""
    servers = _file(args, env)
    known = _names(servers)
    if args.name not in known:
        raise UsageError(f"{servers.label} has no server {args.name!r}; it has {', '.join(known) or 'none'}")
    servers.remove_entry(GROUP, args.name)
    env.stdout.write(f"{servers.label}: {one_line(args.name)} removed\n")


def run_import(args: Arguments, env: CliEnvironment) -> int:
    """Add the servers of another agent's file and report each; the exit code is 1 if one was left out."""
    servers, left_out = _file(args, env), 0
    for found in read_servers(read_text("FILE", args.file, env), args.file):
        problem = found.problem
        if not problem:
            try:
                _add(servers, found.name, found.entry)
            except UsageError as error:
                problem = str(error)
        if problem:
            left_out += 1
            env.stderr.write(f"vibe: {one_line(found.name)} is left out: {one_line(problem, LINE_LENGTH)}\n")
        else:
            ignored = f" (without {', '.join(map(one_line, found.ignored))})" if found.ignored else ""
            env.stdout.write(f"{servers.label}: {one_line(found.name)} added{ignored}\n")
    return ExitCode.FAILED if left_out else ExitCode.DONE


def _file(args: Arguments, env: CliEnvironment) -> ConfigWriter:
    return Settings(env, args.workdir).writer(project=args.project, key=GROUP)


def _entry(args: Arguments) -> dict[str, object]:
    """Return the server that the arguments describe.

    Raises:
        CommandLineError: the arguments don't go together.
    """
    target: list[str] = args.target
    if not target[0].strip():
        raise CommandLineError("URL|COMMAND is blank: give the server's address, or the command that starts it")
    if "://" not in target[0]:
        if args.header or args.key_env:
            raise CommandLineError(f"--header and --key-env are for a server with an address: {target[0]!r} is none")
        env = dict(pairs("--env", args.env))
        return {"transport": "stdio", "command": target, **({"env": env} if env else {})}
    if len(target) > 1 or args.env:
        raise CommandLineError(f"{target[0]}: an address takes no --env and no further words")
    headers = dict(pairs("--header", args.header))
    key = {"api_key_env": args.key_env} if args.key_env else {}
    return {"transport": "http", "url": target[0], **({"headers": headers} if headers else {}), **key}


# --- signing in to servers on the network, and out

DISPLAYS = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")


def run_login(args: Arguments, env: CliEnvironment) -> int:
    """Sign in to a server in a browser."""
    return anyio.run(_login, args, env)


def run_logout(args: Arguments, env: CliEnvironment) -> int:
    """Delete a server's tokens, ask the server to revoke them, and say what happened to them."""
    _, config = _server(args, env)
    sign_in, name = _store(env).drop(config.url), one_line(args.name)
    if sign_in is None:
        raise UsageError(f"MCP server {args.name!r} is not signed in: nothing to forget")
    from vibe.core.tools.mcp.token_auth import revocation_problem  # noqa: PLC0415  it loads httpx2

    problem = revocation_problem(sign_in)
    outcomes = {"": "revoked", None: "forgotten here; it revokes none, so they end by themselves"}
    env.stdout.write(f"signed out of {name}: its tokens are {outcomes.get(problem, 'forgotten here')}\n")
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
        # Without a screen, a text browser would open in the terminal we write to.
        has_screen = sys.platform == "darwin" or any(environ.get(variable) for variable in DISPLAYS)
        if has_screen and not args.no_browser:
            await anyio.to_thread.run_sync(open_browser, address, environ, abandon_on_cancel=True)

    def notice(sentence: str) -> None:
        env.stderr.write(f"vibe: {one_line(sentence, LINE_LENGTH)}\n")
        env.stderr.flush()

    way = SignInSetup(show=show, notice=notice, client_id=args.client_id, port=args.port, patience_seconds=args.timeout)
    kept = ""
    async with cancelled_by_signals(env) as signals:
        kept = await _signed_in(args, env, way)
    if not kept:
        notice(f"not signed in to {name}: it was interrupted")
        return signals.exit_code or ExitCode.INTERRUPTED
    place = one_line(kept, LINE_LENGTH)
    env.stdout.write(f"signed in to {name}; its tokens are kept {place}\n`vibe mcp list` connects to it\n")
    return ExitCode.DONE


async def _signed_in(args: Arguments, env: CliEnvironment, way: SignInSetup) -> str:
    """Sign the user in and return where the tokens are kept; an earlier sign-in stays until this succeeds."""
    store, (loaded, config) = _store(env), await anyio.to_thread.run_sync(_server, args, env)
    endpoint = endpoint_of(config, loaded.environ, args.workdir)
    if endpoint.has_key:
        raise UsageError(f"MCP server {args.name!r} has its own key: remove api_key_env or its Authorization header")
    await anyio.to_thread.run_sync(store.find, endpoint.url)  # reports a damaged file before the sign-in, not after it
    sign_in = await run_sign_in(args.name, endpoint, way)
    problem = await anyio.to_thread.run_sync(keyring_problem)
    await anyio.to_thread.run_sync(partial(store.put, endpoint.url, sign_in, in_keyring=problem is None))
    return f"in {store.path}, for you alone to read ({problem})" if problem else "in the keyring"


def _store(env: CliEnvironment) -> SignInStore:
    return SignInStore(VibePaths(env.home).sign_ins)


def _server(args: Arguments, env: CliEnvironment) -> tuple[LoadedConfig, McpServerConfig]:
    """Return the folder's settings, and those of the named server.

    Raises:
        UsageError: there is no such server, or it is not on the network.
    """
    loaded = Settings(env, args.workdir, trust=args.trust).load()
    configs = {config.name: config for config in loaded.config.mcp_servers}
    config = configs.get(args.name)
    if config is None:
        there = f"there are: {', '.join(configs)}" if configs else "none are; add one with `vibe mcp add`"
        raise UsageError(f"MCP server {args.name!r} is not configured; {there}")
    if config.transport is McpTransport.STDIO:
        raise UsageError(f"MCP server {args.name!r} is a command on this machine, which needs no sign-in")
    return loaded, config
