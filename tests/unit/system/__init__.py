"""Unit tests of files, locks, git and processes."""

from __future__ import annotations
