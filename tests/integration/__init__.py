"""Several packages together, real sockets and processes."""

from __future__ import annotations
