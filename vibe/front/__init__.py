"""What every front end says and asks: words for events, plans and results, and the slash commands."""

from __future__ import annotations
