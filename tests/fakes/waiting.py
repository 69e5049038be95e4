"""Waiting for what nothing announces: events in another process, or on a screen."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

SECONDS = 120.0


def until(condition: Callable[[], object], seconds: float = SECONDS) -> None:
    """Wait until the condition holds, and fail after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.02)


def written(path: Path) -> bool:
    """Return True once the file holds text. ``echo x > file`` creates it empty first."""
    return path.is_file() and path.stat().st_size > 0
