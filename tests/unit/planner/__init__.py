"""Tests of the planner."""

from __future__ import annotations
