"""Plan documents: reading, checking, revising and estimating plans."""

from __future__ import annotations
