"""The vibe coding agent. The package root holds nothing but the version."""

from __future__ import annotations

__version__ = "0.1.0"
