"""The settings that a run sends to its workers: everything that agents follow, and no secret.

Keys are in the workers' own environment. Nothing of the run's environment is sent, nor its ``.env`` file, keyring or
list of trusted folders.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, structs
from pydantic import BaseModel

from vibe.app.engine.build import Engine, EngineRequest
from vibe.core.config.models import VibeConfig
from vibe.core.config.trust import DOCS
from vibe.system.errors import EnvironmentFailure, UsageError, os_error_as
from vibe.system.redaction import redact

HOME_FILES = ("agents", "commands", "hooks.toml", "memory", "prompts", "skills", "tools", *DOCS)
GIVEN = "given"
"""The folder in a worker's home for files that settings name from elsewhere."""
PATHS = ("agent_paths", "skill_paths", "tool_paths")
OF_THE_RUN = frozenset({"cluster", "ipc", "keys_in_keyring", "session_logging", "telemetry", "ui", "updates"})
"""Settings that don't concern agents."""
MOST_FILES = 2_000
MOST_BYTES = 32 * 1024 * 1024
_REFERENCE = re.compile(r"\$\{(env:)?[A-Za-z_][A-Za-z0-9_]*\}")
_SECRET_NAME = re.compile(r"(?i)(api[_-]?key|token|secret|passw(or)?d|credential|authorization)(?!.*env)")
ENTRIES = ("models", "providers", "mcp_servers")
_TABLES = ("headers", "extra_headers", "env")
_LINKS = ("api_base", "url", "command", "args")


class SentSettings(Struct, frozen=True, kw_only=True):
    """A run's settings for its workers, and the ``files`` of their home, by path within it.

    ``left_out`` names the settings that hold a secret, or may hold one.
    """

    request: EngineRequest
    files: Mapping[str, bytes]
    left_out: tuple[str, ...]

    @property
    def warning(self) -> str:
        """The sentence about what is left out; empty if nothing is."""
        if not self.left_out:
            return ""
        return (
            f"not sent to the workers, since it may be a secret: {', '.join(self.left_out)}; write ${{NAME}} in the "
            "settings, and set NAME where the workers run"
        )


def without_secrets(config: VibeConfig) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the settings that workers get, as JSON types, and the names of those left out."""
    left_out: list[str] = []
    settings = config.model_dump(mode="json", exclude=set(OF_THE_RUN), exclude_none=True)
    for kind in ENTRIES:
        own: Sequence[BaseModel] = getattr(config, kind)
        # Setting a default may be an error, and everything that a preset stands for is filled in by now.
        settings[kind] = [entry.model_dump(mode="json", exclude={"preset"}, exclude_unset=True) for entry in own]
        for entry in settings[kind]:
            _clean_entry(entry, f"{kind}[{entry['name']}]", left_out)
    for name, table in settings["tools"].items():
        _clean_tool(table, f"tools.{name}", left_out)
    return settings, tuple(left_out)


def _clean_entry(entry: dict[str, Any], where: str, left_out: list[str]) -> None:
    """Remove anything from a server's settings that looks like a secret.

    In tables that hold secrets, only references to variables are kept.
    """
    for table in _TABLES:
        for name, value in list(entry.get(table, {}).items()):
            if not _REFERENCE.fullmatch(value):
                del entry[table][name]
                left_out.append(f"{where}.{table}.{name}")
    for name in _LINKS:
        link = entry.get(name, "")
        text = link if isinstance(link, str) else " ".join(cast("list[str]", link))
        if (clean := redact(text, {})) != text:
            entry[name] = clean if isinstance(link, str) else clean.split()
            entry |= {"disabled": True} if "transport" in entry else {}
            left_out.append(f"{where}.{name}")


def _clean_tool(table: dict[str, Any], where: str, left_out: list[str]) -> None:
    for name, value in list(table.items()):
        if isinstance(value, dict):
            _clean_tool(cast("dict[str, Any]", value), f"{where}.{name}", left_out)
        elif isinstance(value, str) and value and _SECRET_NAME.search(name) and not _REFERENCE.fullmatch(value):
            del table[name]
            left_out.append(f"{where}.{name}")


def settings_to_send(engine: Engine) -> SentSettings:
    """Return what the workers of a run get. Reads files.

    Raises:
        UsageError: its files are more than 2 000, or more than 32 MB.
        EnvironmentFailure: one of them can't be read.
    """
    home, request = engine.loaded.home, engine.request
    settings, left_out = without_secrets(engine.config)
    sources = {name: home / name for name in HOME_FILES}
    given = partial(_worker_path, home, sources)
    for key in PATHS:
        settings[key] = [given(path) for path in settings[key]]
    for provider in settings["providers"]:
        provider["script"] = given(provider.get("script", ""))
    replay = Path(given(str(request.replay))) if request.replay else None
    trust = engine.loaded.trusts(request.workdir.resolve())
    request = structs.replace(request, flags=settings, given=None, agent=None, trust=trust, replay=replay)
    advice = "a cluster's workers need it, too: make it readable, or remove it"
    with os_error_as(lambda error: EnvironmentFailure(f"{error.filename}: {error.strerror}: {advice}")):
        return SentSettings(request=request, files=_read(sources), left_out=left_out)


def _worker_path(home: Path, sources: dict[str, Path], text: str) -> str:
    """Return the path that a file or folder will have in a worker's home, written as if in the run's home."""
    if not text:
        return ""
    name = f"{GIVEN}/{len(sources)}/{Path(text).name}"
    sources[name] = Path(text)
    return str(home / name)


def _read(sources: Mapping[str, Path]) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    size = 0
    for name, source in sources.items():
        for path in _files(source):
            inside = f"{name}/{path.relative_to(source).as_posix()}" if path != source else name
            files[inside] = path.read_bytes()
            size += len(files[inside])
            if len(files) > MOST_FILES or size > MOST_BYTES:
                raise UsageError(
                    f"agents, prompts, skills and tools are more than {MOST_FILES} files or "
                    f"{MOST_BYTES // 2**20} MB, at {path}: a cluster's workers would need them all, so remove some"
                )
    return files


def _files(source: Path) -> Iterator[Path]:
    """Yield the files of a folder, or the file itself, but no hidden ones such as ``.env`` and no caches of Python."""
    if os.path.isfile(source):
        yield source
    for folder, folders, names in os.walk(source, onerror=_refuse_closed):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__pycache__")
        for name in sorted(names):
            if not name.startswith(".") and os.path.isfile(path := Path(folder, name)):
                yield path


def _refuse_closed(error: OSError) -> None:
    if isinstance(error, PermissionError):  # any other: ``source`` is a file, or is not there
        raise error
