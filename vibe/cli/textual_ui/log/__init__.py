"""The chat log: what was told, said and done, as lines that scroll."""
