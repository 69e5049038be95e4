"""What the planner is told, as Markdown."""

from __future__ import annotations
