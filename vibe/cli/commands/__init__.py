"""One subcommand a file."""

from __future__ import annotations
