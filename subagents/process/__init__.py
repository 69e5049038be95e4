"""Attempts that each run in a process of their own."""

from __future__ import annotations
