"""ConfigWriter: changes single settings in a file, keeping comments and order, and refuses invalid values."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from vibe.core.config.schema import Key, parse_key, written
from vibe.core.config.toml_source import read_text, read_toml
from vibe.core.schemas import table_of
from vibe.system.errors import ConfigError
from vibe.system.files import PRIVATE, changing_alone, put_file, trial_file, writing

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

LONGEST_LINE = 100
"""The most characters of a list on a single line."""


def put_settings(path: Path, label: str, text: str) -> None:
    """Write ``text`` as a whole settings file; a new file is private to the user. Blocks.

    Raises:
        EnvironmentFailure: writing failed; the old file stays.
    """
    with writing(label):
        put_file(path, text.encode(), sync=True, mode=PRIVATE)


@contextmanager
def changing_document(path: Path, label: str, put: Callable[[str], None]) -> Generator[TOMLDocument]:
    """Yield the TOML document of a settings file, and ``put`` its text afterwards if it was changed.

    Only one process at a time can do this.

    Raises:
        ConfigError: the file is not valid.
        EnvironmentFailure: as ``changing_alone``.
    """
    import tomlkit

    with changing_alone(path, label):
        read_toml(path, label)  # its errors name the line
        text = read_text(path, label) or ""
        document = tomlkit.parse(text)
        yield document
        changed = tomlkit.dumps(document)
        if changed != text:
            put(changed)


class ConfigWriter:
    """Changes the settings file ``path``, displayed as ``label``; blocks.

    Each change is written to a draft first. ``check`` gets the draft's path and raises ConfigError if the settings
    would not be valid with it. The draft replaces the file as a whole or not at all, and changes that other processes
    make in between are kept.
    """

    def __init__(self, path: Path, label: str, check: Callable[[Path], object]) -> None:
        self._path = Path(os.path.realpath(path))  # so that a link to another folder stays a link
        self.label = label
        self._check = check

    def set(self, key: str, value: Any) -> None:
        """Set one key.

        Raises:
            ConfigError: the file, the key or the value is wrong; nothing was written.
            EnvironmentFailure: writing failed.
        """
        with changing_document(self._path, self.label, self._put) as document:
            table, name = self._table_of(document, parse_key(key))
            table[name] = _item(value)

    def add_to_list(self, key: str, *entries: str, start: Sequence[str] = ()) -> None:
        """Add the entries that a list does not have yet. A list that the file does not set begins with ``start``.

        Raises:
            ConfigError, EnvironmentFailure: as ``set``.
        """
        with changing_document(self._path, self.label, self._put) as document:
            table, name = self._table_of(document, parse_key(key))
            current: Any = table.get(name)
            if current is None:
                table[name] = _item([*start, *(entry for entry in entries if entry not in start)])
                return
            if not hasattr(current, "insert"):
                raise ConfigError(self.label, key, "must be a list to add to, correct it first")
            for entry in entries:
                if entry not in current:
                    current.append(entry)

    def add_entry(self, key: str, entry: Mapping[str, Any]) -> None:
        """Add a table to a list of tables, such as ``models``, creating the list if the file does not have it.

        Raises:
            ConfigError, EnvironmentFailure: as ``set``.
        """
        import tomlkit

        with changing_document(self._path, self.label, self._put) as document:
            table, name = self._table_of(document, parse_key(key))
            entries: Any = table.setdefault(name, tomlkit.aot())
            if not hasattr(entries, "insert"):
                raise ConfigError(self.label, key, "must be a list of tables to add to, correct it first")
            entries.append(tomlkit.item(dict(entry)))

    def remove_entry(self, key: str, name: str) -> None:
        """Remove the table with this ``name`` from a list of tables.

        Raises:
            ConfigError, EnvironmentFailure: as ``set``, or because the file has no such table.
        """
        with changing_document(self._path, self.label, self._put) as document:
            table, group = self._table_of(document, parse_key(key))
            entries: Any = table.get(group, ())
            names = [entry.get("name") for entry in map(table_of, entries)] if hasattr(entries, "insert") else []
            if name not in names:
                raise ConfigError(self.label, f"{key}[{name}]", "is not set in this file")
            del entries[names.index(name)]
            if not entries:
                del table[group]

    def replace(self, text: str) -> None:
        """Replace the content of the file by ``text``.

        Raises:
            ConfigError, EnvironmentFailure: as ``set``.
        """
        with changing_alone(self._path, self.label):
            self._put(text)

    def text(self) -> str:
        """Return the content of the file, or an empty string if there is no file.

        Raises:
            ConfigError: the file can't be read.
        """
        return read_text(self._path, self.label) or ""

    def _table_of(self, document: Any, key: Key) -> tuple[Any, str]:
        """Return the table that holds a key, creating it if it is missing, and the key's name in that table."""
        import tomlkit

        table: Any = document
        for position, part in enumerate(key[:-1]):
            if part.startswith("["):
                table = self._entry(table, key[: position + 1])
                continue
            is_list = key[position + 1].startswith("[")
            if part not in table:
                if is_list:
                    raise self._missing_entry(key[: position + 2])
                table[part] = tomlkit.table(is_super_table=position + 2 < len(key))
            table = table[part]
            if not hasattr(table, "insert" if is_list else "items"):
                wanted = "a list of tables" if is_list else "a table"
                raise ConfigError(self.label, written(key[: position + 1]), f"is not {wanted}, correct it first")
        return table, key[-1]

    def _entry(self, entries: Any, key: Key) -> Any:
        name = key[-1][1:-1]
        for entry in map(table_of, entries):
            if name in (entry.get("alias"), entry.get("name", entry.get("preset"))):
                return entry
        raise self._missing_entry(key)

    def _missing_entry(self, key: Key) -> ConfigError:
        problem = f"is not set in this file, add it with `vibe config edit` as a whole [[{written(key[:-1])}]]"
        return ConfigError(self.label, written(key), problem)

    def _put(self, text: str) -> None:
        with writing(self.label), trial_file(self._path, text.encode()) as draft:
            self._check(draft)
        put_settings(self._path, self.label, text)


def _item(value: Any) -> Any:
    import tomlkit
    import tomlkit.items

    item = cast("object", tomlkit.item(value))
    if isinstance(item, tomlkit.items.Array) and len(item.as_string()) > LONGEST_LINE:
        item.multiline(multiline=True)
    return item
