"""Attempts on other machines: their trees, files and messages, independent of the kind of cluster."""
