"""The work of a step: an agent or a command, then its checks."""

from __future__ import annotations
