"""Questions to a person at a terminal, and the live tree."""
