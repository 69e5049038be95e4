"""Saved conversations."""

from __future__ import annotations
