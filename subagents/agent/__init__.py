"""An agent made for a step: its model, tools, budget and context."""

from __future__ import annotations
