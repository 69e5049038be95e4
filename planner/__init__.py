"""Plans: their format, how they stand, how they are run and reported."""

from __future__ import annotations
