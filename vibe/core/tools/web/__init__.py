"""Pages of the web, fetched and made text."""

from __future__ import annotations
