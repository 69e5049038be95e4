"""One module per kind of provider; only the factory imports them, when they are used."""

from __future__ import annotations
