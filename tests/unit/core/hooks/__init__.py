"""Tests of vibe.core.hooks."""
