"""Finding, reading and writing files for the file tools."""

from __future__ import annotations
