"""Asking a server for its tools, page after page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vibe.core.tools.mcp.remote import RemoteTool, UnusableToolError, remote_tool

if TYPE_CHECKING:
    from mcp import Client

MOST_PAGES = 100
"""A list that never ends is cut here."""


async def list_tools(client: Client, refused: list[str]) -> tuple[RemoteTool, ...]:
    """The tools a server offers, by name; ``refused`` gets a sentence for each that can't be used."""
    from mcp.types import PaginatedRequestParams  # noqa: PLC0415  costs most of a second

    tools: dict[str, RemoteTool] = {}
    if client.server_capabilities.tools is None:
        return ()
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await client.session.list_tools(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
        for tool in page.tools:
            hints = tool.annotations.model_dump(by_alias=True) if tool.annotations else {}
            try:
                tools.setdefault(tool.name, remote_tool(tool.name, tool.description, tool.input_schema, hints))
            except UnusableToolError as error:
                refused.append(str(error))
        cursor = page.next_cursor
        if not cursor:
            break
    return tuple(sorted(tools.values(), key=lambda tool: tool.name))
