"""Plans: their file format, their state, and how they are run and reported."""

from __future__ import annotations
