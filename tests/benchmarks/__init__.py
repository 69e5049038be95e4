"""Measurements. They are run by hand, and never as timed tests."""
