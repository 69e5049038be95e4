"""The built-in tools, one module each."""

from __future__ import annotations
