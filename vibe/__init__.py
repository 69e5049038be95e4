"""The vibe coding agent; the version is the only name at the root."""

from __future__ import annotations

__version__ = "0.1.0"
