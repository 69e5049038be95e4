"""Plans: written, prepared, run, decided, reported and cleaned up."""
