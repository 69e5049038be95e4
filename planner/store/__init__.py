"""A plan's folder: its journal of facts, step results and lock."""

from __future__ import annotations
