"""``vibe migrate``: removes settings of Mistral Vibe that have no effect here."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vibe.app.engine.settings import Settings
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.core.config.foreign_keys import is_foreign
from vibe.core.config.paths import CONFIG_FILE
from vibe.core.config.toml_source import read_toml
from vibe.core.config.writer import ConfigWriter
from vibe.core.schemas import table_of
from vibe.system.files import writing
from vibe.system.plain_text import one_line

LISTS = ("providers", "models", "mcp_servers")
TABLES = ("session_logging", "tools")
BYPASS = "bypass_tool_permissions"
"""The name of ``auto_approve`` in newer versions of Mistral Vibe."""


LINE_LENGTH = 1_000


def run(args: Arguments, env: CliEnvironment) -> None:
    """Clean the user's settings file and a trusted project's, and say what was done to each."""
    settings = Settings(env, args.workdir)
    project = settings.load().project_dir
    files = [settings.path(project=False), *([] if project is None else [project / CONFIG_FILE])]
    lines = [line for file in files for line in _migrate(file, settings, dry_run=args.dry_run)]
    env.write_lines(lines or ["nothing to migrate"])
    if lines and args.dry_run:
        env.stdout.write("Nothing was changed.\n")


def _migrate(file: Path, settings: Settings, *, dry_run: bool) -> list[str]:
    """Clean a file, unless it is a ``dry_run``, and return lines about it; empty if there was nothing to clean.

    Raises:
        ConfigError: the file can't be read, or the settings would be wrong afterwards; the file is unchanged.
        EnvironmentFailure: the file can't be written.
    """
    import tomlkit

    if read_toml(file, str(file)) is None:
        return []
    writer = ConfigWriter(file, str(file), lambda draft: settings.load({file: draft}))
    document = tomlkit.parse(writer.text())
    changes = [f"  {one_line(change, LINE_LENGTH)}" for change in _clean(document)]
    kept = ""
    if changes and not dry_run:
        kept = f" (the old file is {_backup(file)})"
        writer.replace(tomlkit.dumps(document))
    return [one_line(f"{file}{kept}:", LINE_LENGTH), *changes] if changes else []


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
    for name, tool in table_of(document.get("tools")).items():
        yield from _drop(tool, f"tools.{name}", f"tools.{name}.")


def _drop(table: Any, kind: str, prefix: str) -> Iterator[str]:
    for name in [name for name in table or () if is_foreign(kind, name)]:
        del table[name]
        yield f"{prefix}{name} is removed"


def _backup(file: Path) -> Path:
    """Copy the file beside itself under a free name.

    Raises:
        EnvironmentFailure: the copy can't be written.
    """
    number = 1
    while (copy := file.with_name(f"{file.name}.bak{number if number > 1 else ''}")).exists():
        number += 1
    with writing(str(copy)):
        shutil.copy2(file, copy)
    return copy
