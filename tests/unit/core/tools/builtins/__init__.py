"""Tests of the built-in tools, with real files and real processes."""
