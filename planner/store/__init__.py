"""A plan's folder: its journal of facts, step results and lock."""
