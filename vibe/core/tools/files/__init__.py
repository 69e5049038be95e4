"""Files, found and read."""

from __future__ import annotations
