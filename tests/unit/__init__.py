"""Unit tests, with one folder for each package."""

from __future__ import annotations
