"""Judges a command line by what it would read, write and run."""
