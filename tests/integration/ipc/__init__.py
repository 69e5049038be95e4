"""Tests of ipc with real sockets and processes."""

from __future__ import annotations
