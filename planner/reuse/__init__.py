"""Reuse of results from earlier plans."""
