"""Tests of middleware."""

from __future__ import annotations
