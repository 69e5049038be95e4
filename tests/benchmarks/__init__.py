"""Measurements; run by hand, never timed tests."""

from __future__ import annotations
