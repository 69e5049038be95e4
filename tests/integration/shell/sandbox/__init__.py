"""The real sandboxes, with real programs in them."""

from __future__ import annotations
