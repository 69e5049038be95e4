"""The planner with real processes and files."""
