"""Models: the port, its backends, and what wraps them (retry, limiter, pricing)."""

from __future__ import annotations
