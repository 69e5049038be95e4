"""Tests of vibe.core.skills."""
