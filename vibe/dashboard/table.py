"""RowTable: rows by key, each with the revision of its last change; what changed since a revision is one patch."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

Row: TypeAlias = Mapping[str, Any]

MOST_GONE = 4_096
"""Removals that are remembered; who has not heard of an older one gets the whole table."""
STREAMED = "text"
"""The field that grows: of it only what is new is told."""
LEAST_STREAMED = 40
"""Characters from which that is worth it."""


class Patch(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change of a table: ``gone`` removes rows, ``set`` merges fields (None: back to the default), ``append`` adds.

    ``whole``: there is nothing in the table but this. No key is both in ``gone`` and elsewhere.
    """

    table: str
    whole: bool = False
    gone: list[str] = []
    set: dict[str, Any] = {}
    append: dict[str, str] = {}


class _Kept(Struct):
    """A row: its fields now, all that it ever had, and the revision of its last change."""

    row: Row
    names: set[str]
    revision: int


class RowTable:
    """Rows by key. What is put is seen in patches once it is committed.

    ``epoch`` tells this table from every other: a revision means nothing without it.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.epoch = secrets.token_hex(4)
        self._rows: dict[str, _Kept] = {}
        self._gone: dict[str, tuple[int, set[str]]] = {}
        self._forgotten = 0
        self._before: dict[str, Row | None] = {}

    @property
    def rows(self) -> dict[str, Row]:
        """The rows, by key."""
        return {key: kept.row for key, kept in self._rows.items()}

    @property
    def is_dirty(self) -> bool:
        """Something was put that is not committed."""
        return bool(self._before)

    def get(self, key: str) -> Row | None:
        """Return a row; None: there is none."""
        kept = self._rows.get(key)
        return None if kept is None else kept.row

    def under(self, beginning: str) -> dict[str, Row]:
        """Return the rows whose keys begin so, by what follows in their keys."""
        return {key.removeprefix(beginning): row for key, row in self.rows.items() if key.startswith(beginning)}

    def put(self, key: str, row: Row | None) -> None:
        """Have a row be so from now on; None: there is none any more."""
        kept = self._rows.get(key)
        old = None if kept is None else kept.row
        if old == row:
            return
        self._before.setdefault(key, old)
        if row is None:
            if kept is not None:
                del self._rows[key]
                self._gone[key] = kept.revision, kept.names
        elif kept is None:
            _, names = self._gone.pop(key, (0, set[str]()))
            self._rows[key] = _Kept(row, names | row.keys(), 0)
        else:
            kept.row = row
            kept.names.update(row)

    def keep(self, keys: Iterable[str], beginning: str) -> None:
        """Remove the rows whose keys begin so and are not among those."""
        wanted = set(keys)
        for key in [key for key in self._rows if key.startswith(beginning) and key not in wanted]:
            self.put(key, None)

    def replace(self, beginning: str, rows: Mapping[str, Row]) -> None:
        """Have the rows whose keys begin so be these, by what follows in their keys."""
        for name, row in rows.items():
            self.put(beginning + name, row)
        self.keep((beginning + name for name in rows), beginning)

    def commit(self, revision: int) -> Patch | None:
        """Let all that was put since the last time be one change, of that revision; None: it comes to nothing."""
        before, self._before = self._before, {}
        patch = Patch(table=self.name, gone=[], set={}, append={})
        for key, old in before.items():
            kept = self._rows.get(key)
            if kept is None:
                _, names = self._gone.pop(key, (0, set[str]()))
                self._gone[key] = revision, names
                if old is not None:
                    patch.gone.append(key)
            elif kept.row != old:
                _tell(patch, key, old, kept.row)
            if kept is not None:
                kept.revision = revision
        while len(self._gone) > MOST_GONE:
            oldest = next(iter(self._gone))
            self._forgotten = max(self._forgotten, self._gone.pop(oldest)[0])
        return patch if patch.gone or patch.set or patch.append else None

    def since(self, revision: int) -> Patch | None:
        """Return what changed after a revision, as far as it is committed; 0: all there is. None: nothing."""
        if revision == 0 or revision < self._forgotten:
            return Patch(table=self.name, whole=True, set=self.rows)
        new = {key: kept for key, kept in self._rows.items() if kept.revision > revision}
        said = {key: {name: kept.row.get(name) for name in kept.names} for key, kept in new.items()}
        gone = [key for key, (when, _) in self._gone.items() if when > revision]
        return Patch(table=self.name, gone=gone, set=said) if said or gone else None


def _tell(patch: Patch, key: str, old: Row | None, row: Row) -> None:
    """Put into a patch how a row became another."""
    if old is None:
        patch.set[key] = row
        return
    changed = {name: value for name, value in row.items() if name not in old or old[name] != value}
    changed |= dict.fromkeys(name for name in old if name not in row)
    was, text = old.get(STREAMED), changed.get(STREAMED)
    if isinstance(was, str) and isinstance(text, str) and len(was) >= LEAST_STREAMED and text.startswith(was):
        del changed[STREAMED]
        patch.append[key] = text[len(was) :]
    if changed:
        patch.set[key] = changed
