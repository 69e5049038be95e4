"""Re-exports the names that tools and scripts written for Mistral Vibe import.

For names that have no counterpart here, the ImportError says what to use instead.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from vibe.core.config.foreign_imports import HERE, INSTEAD


def __getattr__(name: str) -> Any:
    if name in HERE:
        return getattr(import_module(HERE[name]), name)
    if name in INSTEAD:
        raise ImportError(f"{name} of Mistral Vibe is not here: {INSTEAD[name]}", name=__name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
