"""Tests of the command line with real processes."""
