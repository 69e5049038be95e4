"""Attempts that each run in a process of their own."""
