"""Events and results as text and as JSON."""

from __future__ import annotations
