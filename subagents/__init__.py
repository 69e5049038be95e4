"""Carries out a single step: its subagents, their budget, their tools, and the places where they run."""
