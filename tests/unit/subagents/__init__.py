"""Tests of subagents."""
