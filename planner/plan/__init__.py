"""Plan documents: reading, checking, revising and estimating plans."""
