"""Implementations of our own ports for tests."""

from __future__ import annotations
