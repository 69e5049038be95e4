"""Controllers: the meaning of what a person types and presses."""

from __future__ import annotations
