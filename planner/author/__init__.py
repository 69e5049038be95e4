"""Plans and patches written by a model."""

from __future__ import annotations
