"""Standing orders of the planner, as Markdown."""

from __future__ import annotations
