"""Tests of the installed command, run as a user runs it."""
