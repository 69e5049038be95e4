"""Tests of several packages together, with real sockets and processes."""

from __future__ import annotations
