"""Agent profiles: named agents with their model, prompt, tools and rights."""

from __future__ import annotations
