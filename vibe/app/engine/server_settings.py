"""The MCP servers in a settings file, added and removed, and those that the JSON files of other agents name."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import chain, count
from typing import Any, cast

from msgspec import Struct, field

from vibe.app.engine.settings import Settings
from vibe.core.schemas import table_of
from vibe.core.tools.mcp.settings import ONLY_EDITORS, REFERENCE
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
