"""The words of every front end, for events, plans, requests and results, and its slash commands."""

from __future__ import annotations
