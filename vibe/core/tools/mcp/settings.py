"""From an entry of ``mcp_servers`` to what is run or called: argv, variables, headers."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from vibe.core.config.models import McpServerConfig
from vibe.system.errors import EnvironmentFailure
from vibe.system.programs import find_program, shunned

INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "VIBE_DEPTH", "VIBE_WRITERS")
"""The variables a server gets without being named in its ``env``; by the last, ours knows how deep it is."""

REFERENCE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*|/)(?::-([^}]*))?\}")
ONLY_EDITORS = frozenset({
    "columnNumber", "defaultBuildTask", "execPath", "file", "fileBasename", "fileBasenameNoExtension", "fileDirname",
    "fileDirnameBasename", "fileExtname", "fileWorkspaceFolder", "lineNumber", "relativeFile", "relativeFileDirname",
    "selectedText",
})  # fmt: skip
"""Variables that mean something in an editor only."""
ADDRESSES = ("http://", "https://")
TOKEN = "{token}"  # noqa: S105  a place holder


class ServerSettingError(EnvironmentFailure):
    """A server that can't be started: its command is missing, or a variable it needs is not set."""

    def __init__(self, server: str, problem: str) -> None:
        super().__init__(f"mcp_servers[{server}] {problem}")
        self.problem = problem


class Launch(Struct, frozen=True, kw_only=True):
    """A server's process: ``argv`` with the program's path first, and all the variables it gets."""

    argv: tuple[str, ...]
    environ: Mapping[str, str]
    cwd: Path


class Endpoint(Struct, frozen=True, kw_only=True):
    """A server on the network."""

    url: str
    headers: Mapping[str, str]
    has_key: bool = False
    """The settings say how the server knows us, so that no sign-in is used."""


def launch_of(config: McpServerConfig, environ: Mapping[str, str], cwd: Path) -> Launch:
    """Return how a stdio server is started; looks the program up.

    Raises:
        ServerSettingError: there is no such program, or a variable is not set.
    """
    known = _known(environ, cwd)
    given = {name: _expanded(config.name, f"env.{name}", value, known) for name, value in config.env.items()}
    variables = {name: environ[name] for name in INHERITED if name in environ} | given
    program, *rest = [_expanded(config.name, "command", word, known) for word in _argv(config)]
    found = _program(program, variables.get("PATH"), cwd)
    if found is None:
        raise ServerSettingError(
            config.name,
            f"can't be started: there is no command {program!r}{shunned(program, environ)}; install it, or correct "
            "`command`",
        )
    return Launch(argv=(found, *rest), environ=variables, cwd=cwd)


def endpoint_of(config: McpServerConfig, environ: Mapping[str, str], cwd: Path) -> Endpoint:
    """Return how a server on the network is called.

    Raises:
        ServerSettingError: a variable it names is not set, or makes no address.
    """
    known = _known(environ, cwd)
    headers = {
        name: _expanded(config.name, f"headers.{name}", text, known).strip() for name, text in config.headers.items()
    }
    given = {name.lower() for name in headers}
    if config.api_key_env and config.api_key_header.lower() not in given:
        key = environ.get(config.api_key_env)
        if not key:
            raise ServerSettingError(config.name, f"needs the environment variable {config.api_key_env}: set it")
        headers[config.api_key_header] = config.api_key_format.replace(TOKEN, key.strip())
    url = _expanded(config.name, "url", config.url, known).strip()
    if not url.startswith(ADDRESSES):
        raise ServerSettingError(config.name, "needs a url that begins with http:// or https://: correct its variables")
    has_key = bool(config.api_key_env or urlsplit(url).username) or "authorization" in given
    return Endpoint(url=url, headers=headers, has_key=has_key)


def _known(environ: Mapping[str, str], cwd: Path) -> dict[str, str]:
    """The variables, with those of editors that mean something here."""
    folders = dict.fromkeys(("workspaceFolder", "workspaceRoot", "cwd"), str(cwd))
    parts = {"workspaceFolderBasename": cwd.name, "userHome": environ.get("HOME", ""), "pathSeparator": os.sep}
    return {**environ, **folders, **parts, "/": os.sep}


def _argv(config: McpServerConfig) -> list[str]:
    command = config.command
    try:
        words = shlex.split(command) if isinstance(command, str) else list(command)
    except ValueError as error:
        raise ServerSettingError(config.name, f"has a `command` that can't be split into words: {error}") from error
    return [*words, *config.args] if words and words[0] else ["", *config.args]


def _program(name: str, search_path: str | None, cwd: Path) -> str | None:
    if os.sep not in name:
        return find_program(name, {"PATH": search_path or os.defpath}) if name else None
    path = Path(os.path.normpath(cwd / Path(name).expanduser()))
    return str(path) if path.is_file() and os.access(path, os.X_OK) else None


def _expanded(server: str, key: str, text: str, environ: Mapping[str, str]) -> str:
    """``text`` with the variables it names in place of ``${NAME}``, ``${env:NAME}`` and ``${NAME:-otherwise}``."""

    def value(match: re.Match[str]) -> str:
        name, otherwise = match.groups()
        if not environ.get(name) and otherwise is not None:
            return otherwise
        if name not in environ:
            raise ServerSettingError(server, f"needs the environment variable {name} for {key}: set it")
        return environ[name]

    return REFERENCE.sub(value, text)
