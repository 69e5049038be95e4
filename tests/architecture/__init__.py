"""Rules about the whole tree that the linters cannot check."""
