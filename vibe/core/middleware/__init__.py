"""Middleware of the agent loop, one concern per file."""

from __future__ import annotations
