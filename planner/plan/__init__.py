"""Plans: read from a document, checked, changed, estimated."""

from __future__ import annotations
