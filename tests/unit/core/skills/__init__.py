"""Tests of vibe.core.skills."""

from __future__ import annotations
