"""Tests of subagents."""

from __future__ import annotations
