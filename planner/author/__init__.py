"""Planners: models that write and revise plans, and the checks on what they hand in."""
