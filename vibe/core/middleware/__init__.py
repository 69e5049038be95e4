"""Middleware of the agent loop, one concern per file."""
