"""Tests of vibe.core.hooks."""

from __future__ import annotations
