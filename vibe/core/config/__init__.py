"""Configuration: models, the layered loader, paths and trusted folders."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """Return ``VibeConfig``, which tools of other people import from here; loaded when it is asked for."""
    if name != "VibeConfig":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from vibe.core.config.models import VibeConfig  # noqa: PLC0415  it costs what few need

    return VibeConfig
