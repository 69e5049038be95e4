"""What the linters cannot see."""

from __future__ import annotations
