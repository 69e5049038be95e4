"""Rules about the whole tree that the linters cannot check."""

from __future__ import annotations
