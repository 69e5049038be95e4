"""Tests of the use cases' parts."""

from __future__ import annotations
