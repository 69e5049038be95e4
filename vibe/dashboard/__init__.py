"""The page of the dashboard: a server for this machine alone, of rows that come as patches."""

from __future__ import annotations
