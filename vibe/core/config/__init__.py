"""Configuration: models, the layered loader, paths and trusted folders."""

from __future__ import annotations
