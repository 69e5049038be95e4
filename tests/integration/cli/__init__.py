"""Tests of the command line with real processes."""

from __future__ import annotations
