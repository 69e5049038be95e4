"""The MCP server: this program as a tool of others, over stdio or HTTP."""

from __future__ import annotations
