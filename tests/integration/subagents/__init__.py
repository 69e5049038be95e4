"""Steps that work on real files and repositories."""
