"""Tools: the BaseTool API, discovery, permissions and the built-in set."""

from __future__ import annotations
