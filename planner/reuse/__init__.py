"""Reuse of results from earlier plans."""

from __future__ import annotations
