"""Agents made for steps: their models, tools, budgets and contexts."""
