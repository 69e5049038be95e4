"""A step's work: an agent or a command, then its checks."""

from __future__ import annotations
