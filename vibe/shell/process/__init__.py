"""Commands, started and confined."""
