"""The planner's system prompts, as Markdown."""

from __future__ import annotations
