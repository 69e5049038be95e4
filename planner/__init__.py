"""Plans: their file format, their state, and how they are run and reported."""
