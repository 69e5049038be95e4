"""Results of earlier plans, taken over."""

from __future__ import annotations
