"""Sessions with real files, processes and git."""
