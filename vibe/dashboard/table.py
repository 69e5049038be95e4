"""Keeps rows by key, each with the revision of its last change, so that later changes can be sent as one patch."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

Row: TypeAlias = Mapping[str, Any]

MOST_GONE = 4_096
"""Number of removals remembered. A page that missed an older one gets the whole table."""
STREAMED = "text"
"""The field that grows. Only its new part is sent."""
LEAST_STREAMED = 40
"""Length of the field, in characters, from which only its new part is sent."""


class Patch(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change of a table.

    ``gone`` removes rows. ``set`` merges fields, where None resets a field to its default. ``append`` adds to the field
    ``STREAMED``. ``whole`` says that the table holds nothing else. No key is both in ``gone`` and elsewhere.
    """

    table: str
    whole: bool = False
    gone: list[str] = []
    set: dict[str, Any] = {}
    append: dict[str, str] = {}


class _StoredRow(Struct):
    """A row with its current fields, the names of all fields it ever had, and the revision of its last change."""

    row: Row
    names: set[str]
    revision: int


class RowTable:
    """Rows by key. Changes appear in patches once they are committed.

    ``epoch`` identifies this table. A revision means nothing without it.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.epoch = secrets.token_hex(4)
        self._rows: dict[str, _StoredRow] = {}
        self._gone: dict[str, tuple[int, set[str]]] = {}
        self._forgotten = 0
        self._before: dict[str, Row | None] = {}

    @property
    def rows(self) -> dict[str, Row]:
        """The rows, by key."""
        return {key: stored.row for key, stored in self._rows.items()}

    def get(self, key: str) -> Row | None:
        """Return a row, or None if there is none."""
        stored = self._rows.get(key)
        return None if stored is None else stored.row

    def under(self, beginning: str) -> dict[str, Row]:
        """Return the rows whose keys begin with ``beginning``, by the rest of their keys."""
        return {key.removeprefix(beginning): row for key, row in self.rows.items() if key.startswith(beginning)}

    def put(self, key: str, row: Row | None) -> None:
        """Set a row, or remove it if ``row`` is None."""
        stored = self._rows.get(key)
        old = None if stored is None else stored.row
        if old == row:
            return
        self._before.setdefault(key, old)
        if row is None:
            if stored is not None:
                del self._rows[key]
                self._gone[key] = stored.revision, stored.names
        elif stored is None:
            _, names = self._gone.pop(key, (0, set[str]()))
            self._rows[key] = _StoredRow(row, names | row.keys(), 0)
        else:
            stored.row = row
            stored.names.update(row)

    def keep(self, keys: Iterable[str], beginning: str) -> None:
        """Remove the rows whose keys begin with ``beginning`` and aren't in ``keys``."""
        wanted = set(keys)
        for key in [key for key in self._rows if key.startswith(beginning) and key not in wanted]:
            self.put(key, None)

    def replace(self, beginning: str, rows: Mapping[str, Row]) -> None:
        """Replace all rows whose keys begin with ``beginning``. ``rows`` has the new ones by the rest of their keys."""
        for name, row in rows.items():
            self.put(beginning + name, row)
        self.keep((beginning + name for name in rows), beginning)

    def commit(self, revision: int) -> Patch | None:
        """Commit all changes since the last time as one revision. Return the patch, or None if nothing differs."""
        before, self._before = self._before, {}
        patch = Patch(table=self.name, gone=[], set={}, append={})
        for key, old in before.items():
            stored = self._rows.get(key)
            if stored is None:
                _, names = self._gone.pop(key, (0, set[str]()))
                self._gone[key] = revision, names
                if old is not None:
                    patch.gone.append(key)
            elif stored.row != old:
                _add_difference(patch, key, old, stored.row)
            if stored is not None:
                stored.revision = revision
        while len(self._gone) > MOST_GONE:
            oldest = next(iter(self._gone))
            self._forgotten = max(self._forgotten, self._gone.pop(oldest)[0])
        return patch if patch.gone or patch.set or patch.append else None

    def since(self, revision: int) -> Patch | None:
        """Return the committed changes after a revision, or None if there are none. For revision 0, return all rows."""
        if revision == 0 or revision < self._forgotten:
            return Patch(table=self.name, whole=True, set=self.rows)
        new = {key: stored for key, stored in self._rows.items() if stored.revision > revision}
        changed = {key: {name: stored.row.get(name) for name in stored.names} for key, stored in new.items()}
        gone = [key for key, (when, _) in self._gone.items() if when > revision]
        return Patch(table=self.name, gone=gone, set=changed) if changed or gone else None


def _add_difference(patch: Patch, key: str, old: Row | None, row: Row) -> None:
    """Add the difference between two versions of a row to a patch."""
    if old is None:
        patch.set[key] = row
        return
    changed = {name: value for name, value in row.items() if name not in old or old[name] != value}
    changed |= dict.fromkeys(name for name in old if name not in row)
    before, text = old.get(STREAMED), changed.get(STREAMED)
    if isinstance(before, str) and isinstance(text, str) and len(before) >= LEAST_STREAMED and text.startswith(before):
        del changed[STREAMED]
        patch.append[key] = text[len(before) :]
    if changed:
        patch.set[key] = changed
