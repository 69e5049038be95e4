"""The MCP client against real servers."""

from __future__ import annotations
