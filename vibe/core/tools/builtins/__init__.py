"""The tools every agent starts with; one module each."""

from __future__ import annotations
