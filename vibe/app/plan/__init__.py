"""Plans: written, prepared, run, decided, reported and cleaned up."""

from __future__ import annotations
