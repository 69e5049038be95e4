"""The planner with real processes and files."""

from __future__ import annotations
