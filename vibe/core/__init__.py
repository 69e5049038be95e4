"""The engine: one agent, its tools, its model, its session."""

from __future__ import annotations
