"""Commands, started and confined."""

from __future__ import annotations
