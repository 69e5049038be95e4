"""Tests of the backends against real servers."""
