"""Plans: written, prepared, run, decided, reported, cleaned."""

from __future__ import annotations
