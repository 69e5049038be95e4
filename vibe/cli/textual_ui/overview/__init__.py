"""The overview of plan, agents, tasks, context and cost, beside the chat or in one line."""

from __future__ import annotations
