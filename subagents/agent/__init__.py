"""Agents made for steps: their models, tools, budgets and contexts."""

from __future__ import annotations
