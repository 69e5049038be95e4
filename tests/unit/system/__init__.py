"""Unit tests of files, locks, git and processes."""
