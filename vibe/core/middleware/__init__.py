"""One concern a file, run before and after every turn."""

from __future__ import annotations
