"""Sessions with real files, processes and git."""

from __future__ import annotations
