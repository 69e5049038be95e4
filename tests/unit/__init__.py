"""Unit tests, one folder a package."""

from __future__ import annotations
