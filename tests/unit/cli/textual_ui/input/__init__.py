"""The prompt's input."""

from __future__ import annotations
