"""Controllers, which decide what a person's lines and keys do."""
