"""A plan, carried out."""

from __future__ import annotations
