"""Steps that work on real files and repositories."""

from __future__ import annotations
