"""Tests of the backends against real servers."""

from __future__ import annotations
