"""Takes settings that only Mistral Vibe has out of settings files, with a copy of each file kept."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from vibe.app.engine.host import Host
from vibe.app.engine.settings import Settings
from vibe.core.config.foreign_keys import is_foreign
from vibe.core.config.paths import CONFIG_FILE
from vibe.core.config.toml_source import read_toml
from vibe.core.config.writer import ConfigWriteError, ConfigWriter

LISTS = ("providers", "models", "mcp_servers")
TABLES = ("session_logging",)
BYPASS = "bypass_tool_permissions"
"""Newer versions' name of ``auto_approve``."""


class Migrated(Struct, frozen=True, kw_only=True):
    """One file that was changed, or would be."""

    file: Path
    changes: tuple[str, ...]
    """A line for each key that is removed."""
    backup: Path | None = None
    """The copy of the old file."""


def migrate(host: Host, workdir: Path, *, dry_run: bool) -> list[Migrated]:
    """Clean the user's settings file and a trusted project's; those with nothing to clean are left out. Blocks.

    Raises:
        ConfigError: a file can't be read, or the settings would be wrong afterwards; nothing was changed in it.
        EnvironmentFailure: the disk refuses.
    """
    settings = Settings(host, workdir)
    project = settings.load().project_dir
    files = [settings.path(project=False), *([] if project is None else [project / CONFIG_FILE])]
    return [done for file in files if (done := _migrate(file, settings, dry_run=dry_run)).changes]


def _migrate(file: Path, settings: Settings, *, dry_run: bool) -> Migrated:
    import tomlkit

    if read_toml(file, str(file)) is None:
        return Migrated(file=file, changes=())
    writer = ConfigWriter(file, str(file), lambda draft: settings.load({file: draft}))
    document = tomlkit.parse(writer.text())
    changes = tuple(_clean(document))
    if dry_run or not changes:
        return Migrated(file=file, changes=changes)
    backup = _backup(file)
    writer.replace(tomlkit.dumps(document))
    return Migrated(file=file, changes=changes, backup=backup)


def _clean(document: Any) -> Iterator[str]:
    """Remove the keys that mean nothing here, and yield a line for each."""
    if document.get(BYPASS) is True and "auto_approve" not in document:
        document["auto_approve"] = True
        yield f"{BYPASS} = true is now auto_approve = true"
    yield from _drop(document, "", "")
    for name in LISTS:
        for index, entry in enumerate(document.get(name, ())):
            yield from _drop(entry, name, f"{name}[{index}].")
    for name in TABLES:
        yield from _drop(document.get(name), name, f"{name}.")
    tools = document.get("tools")
    yield from _drop(tools, "tools", "tools.")
    for name in list(tools or ()):
        yield from _drop(tools[name], f"tools.{name}", f"tools.{name}.")


def _drop(table: Any, kind: str, prefix: str) -> Iterator[str]:
    for name in [name for name in table or () if is_foreign(kind, name)]:
        del table[name]
        yield f"{prefix}{name} is removed"


def _backup(file: Path) -> Path:
    """Copy the file beside it, under a name that is free.

    Raises:
        ConfigWriteError: the disk refuses.
    """
    number = 1
    while (copy := file.with_name(f"{file.name}.bak{number if number > 1 else ''}")).exists():
        number += 1
    try:
        shutil.copy2(file, copy)
    except OSError as error:
        raise ConfigWriteError(str(copy), error) from error
    return copy
