"""Unit tests, with one folder for each package."""
