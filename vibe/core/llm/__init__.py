"""Models: the port, its backends and their wrappers (retry, limiter, pricing)."""
