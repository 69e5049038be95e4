"""Use cases and wiring: the only place where concrete classes meet."""
