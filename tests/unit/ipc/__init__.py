"""Tests of ipc: bytes and files."""

from __future__ import annotations
