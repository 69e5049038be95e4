"""``vibe mcp list|add|remove|import``: the servers whose tools agents have here, and their settings."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain, count
from pathlib import Path
from typing import Any, cast

import anyio
from msgspec import Struct, field, to_builtins
from msgspec.structs import replace

from vibe.app.engine.build import Engine, EngineRequest, build_engine
from vibe.app.engine.host import Host
from vibe.app.engine.settings import Settings
from vibe.app.engine.tool_servers import servers_of
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.cli.parser import CommandLineError
from vibe.core.schemas import table_of
from vibe.core.tools.mcp.connection import ServerState, ServerStatus
from vibe.core.tools.mcp.settings import ONLY_EDITORS, REFERENCE
from vibe.front.event_text import one_line
from vibe.front.listings import NO_SERVERS, PROBLEM_LENGTH, server_lines
from vibe.system.errors import UsageError

GROUP = "mcp_servers"
TABLES = ("mcpServers", "servers", "context_servers")
"""Names of the table of servers in the files of other agents."""
_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])')
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class ForeignServer(Struct, frozen=True, kw_only=True):
    """A server of another agent's file, as an ``entry`` of ours; ``problem`` says why it can't be one.

    ``ignored`` are the fields that mean nothing here.
    """

    name: str
    entry: Mapping[str, Any] = field(default_factory=dict[str, Any])
    ignored: tuple[str, ...] = ()
    problem: str = ""


class ServerSettings:
    """The servers in the user's settings file, or in the project's. Blocks."""

    def __init__(self, settings: Settings, *, project: bool) -> None:
        self.label = settings.label(settings.path(project=project))
        self._settings = settings
        self._project = project

    def add(self, name: str, entry: Mapping[str, Any]) -> None:
        """Add a server; it is not started.

        Raises:
            UsageError: there is one of that name.
            ConfigError, EnvironmentFailure: the file or the entry is wrong, or the disk refuses.
        """
        if not _NAME.fullmatch(name):
            raise UsageError(f"{name[:80]!r} is not a server name: use letters, digits, `_`, `.` and `-`, at most 64")
        if name in self._names():
            other = f"run `vibe mcp remove {name}` first, or choose another name"
            raise UsageError(f"{self.label} already has a server {name!r}: {other}")
        writer = self._settings.writer(project=self._project, key=GROUP)
        writer.add_entry(GROUP, {"name": name, **entry})

    def remove(self, name: str) -> None:
        """Take a server out.

        Raises:
            UsageError: there is none of that name.
            ConfigError, EnvironmentFailure: the file is wrong, or the disk refuses.
        """
        known = self._names()
        if name not in known:
            raise UsageError(f"{self.label} has no server {name!r}; it has {', '.join(known) or 'none'}")
        self._settings.writer(project=self._project, key=GROUP).remove_entry(GROUP, name)

    def _names(self) -> list[str]:
        try:
            document = tomllib.loads(self._settings.writer(project=self._project).text())
        except tomllib.TOMLDecodeError:  # the next change of it says so, with the line
            return []
        entries = cast("list[Any]", document.get(GROUP, []))
        return [str(cast("dict[str, Any]", entry).get("name")) for entry in entries if isinstance(entry, dict)]


def read_servers(text: str, label: str) -> Iterator[ForeignServer]:
    """Return the servers of a JSON file such as ``.mcp.json``.

    Raises:
        UsageError: it names none.
    """
    for what in (_COMMENT, _LAST_COMMA):  # as VS Code's own template has them
        text = what.sub(lambda found: found[1] or "", text)
    try:
        document: Any = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{label} is not valid JSON ({error}): correct it first") from error
    fields = table_of(document)
    fields = table_of(fields.get("mcp")) | fields  # the settings of an editor as a whole
    found = next((fields[name] for name in TABLES if isinstance(fields.get(name), dict)), None)
    if found is None:
        raise UsageError(f"{label} lists no servers: it has no object {' or '.join(TABLES)}")
    names: set[str] = set()
    for name, given in cast("dict[str, Any]", found).items():
        names.add(plain := _plain(name, names | (found.keys() - {name})))
        yield _foreign(plain, given)


def _plain(name: str, taken: AbstractSet[str]) -> str:
    """A name as ours can be: with hyphens for blanks and all else, and a number if it is taken."""
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
    said = {"type", "transport", "disabled", "enabled", *kept}
    ignored = tuple(key for key in table if key not in said and table[key])
    return ForeignServer(name=name, entry={"transport": kind, **kept}, ignored=ignored)


def _written(value: Any) -> str:
    """A number or a yes of JSON as the text that it is in an environment."""
    return value if isinstance(value, str) else json.dumps(value)


LINE_LENGTH = 400
ADDRESSES = ("http://", "https://")


def run_list(args: Arguments, env: CliEnvironment) -> int:
    """List the servers; exit code 1 if one failed, 3 if it is required."""
    engine = build_engine(env, EngineRequest(workdir=args.workdir, trust=args.trust))
    servers = anyio.run(_connected, engine, env)
    for warning in engine.loaded.warnings:
        env.stderr.write(f"vibe: warning: {one_line(warning, PROBLEM_LENGTH)}\n")
    shown = [server_lines(server) for server in servers] or [[NO_SERVERS]]
    document = {"servers": [to_builtins(server) for server in servers]}
    env.answer(args, document, (line for lines in shown for line in lines))
    failed = {server.required for server in servers if server.status == "failed"}
    return ExitCode.ENVIRONMENT if True in failed else ExitCode.FAILED if failed else ExitCode.DONE


async def _connected(engine: Engine, host: Host) -> list[ServerState]:
    """Connect to every enabled server, side by side, disconnect, and return the state of each that is configured."""
    servers = servers_of(engine, host, engine.request.workdir, engine.config.mcp_servers)
    async with servers.running():
        await servers.wait_ready(strict=False)
        states = {state.name: state for state in servers.states()}
    found: list[ServerState] = []
    for config in engine.config.mcp_servers:
        disabled = ServerState(
            name=config.name,
            transport=config.transport.value,
            status=ServerStatus.DISABLED,
            required=config.required,
        )
        origin = engine.loaded.origins.get(f"mcp_servers[{config.name}].name", "")
        found.append(replace(states.get(config.name, disabled), origin=origin))
    return found


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
    return ServerSettings(Settings(env, args.workdir), project=args.project)


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
