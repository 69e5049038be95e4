"""Do one step, alone: subagents, their budget, their tools."""

from __future__ import annotations
