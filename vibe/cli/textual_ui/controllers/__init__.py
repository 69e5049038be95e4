"""Controllers, which decide what a person's lines and keys do."""

from __future__ import annotations
