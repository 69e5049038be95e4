"""Tools have one name here and another elsewhere; users may write either."""

from __future__ import annotations

from types import MappingProxyType

TOOL_ALIASES = MappingProxyType({
    "read": "read_file",
    "edit": "search_replace",
    "write": "write_file",
    "webfetch": "web_fetch",
})


def canonical_tool_name(name: str) -> str:
    """Our name of the tool; a pattern, and a name nobody else uses, stay as they are."""
    return TOOL_ALIASES.get(name, name)
