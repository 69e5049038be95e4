"""A page reduced to what a test needs: it merges patches and knows nothing else."""

from __future__ import annotations

from typing import Any

import msgspec

from vibe.dashboard.table import Patch

Rows = dict[str, dict[str, Any]]


class FakePage:
    """The rows of each table, from patches that are read from their JSON form."""

    def __init__(self) -> None:
        self.tables: dict[str, Rows] = {}

    def take(self, patch: Patch | None) -> None:
        if patch is not None:
            self.merge(msgspec.json.decode(msgspec.json.encode(patch)))

    def merge(self, patch: dict[str, Any]) -> None:
        """Merge a patch as the page does: first removed rows, then fields, then text."""
        rows = self.tables.setdefault(patch["table"], {})
        if patch.get("whole"):
            rows.clear()
        for key in patch.get("gone", ()):
            rows.pop(key, None)
        for key, fields in patch.get("set", {}).items():
            row = rows.setdefault(key, {}) | fields
            rows[key] = {name: value for name, value in row.items() if value is not None}
        for key, text in patch.get("append", {}).items():
            rows[key]["text"] += text


def shown(rows: Any) -> Rows:
    """Return rows as a new page has them."""
    page = FakePage()
    page.merge({"table": "all", "set": msgspec.json.decode(msgspec.json.encode(rows))})
    return page.tables["all"]
