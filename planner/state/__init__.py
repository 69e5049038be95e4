"""The state of a plan: ``decide`` turns commands into facts, ``evolve`` folds them into the state. No clock, no I/O."""
