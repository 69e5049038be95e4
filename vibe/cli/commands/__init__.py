"""The subcommands of ``vibe``, one per module."""

from __future__ import annotations
