"""Tests of the tools: what they are, where they come from, and what they may do."""
