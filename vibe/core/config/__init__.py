"""Configuration: the settings' models, the layered loader, paths and trusted folders."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """Return ``VibeConfig``, which other people's tools import from here; its module is loaded on first use."""
    if name != "VibeConfig":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from vibe.core.config.models import VibeConfig  # noqa: PLC0415  importing it is slow, and few callers need it

    return VibeConfig
