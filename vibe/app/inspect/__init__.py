"""Questions about a set-up, answered without running anything."""

from __future__ import annotations
