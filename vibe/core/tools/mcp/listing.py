"""Asking a server for its tools, page after page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from vibe.core.config.mcp_models import McpServerConfig
from vibe.core.config.patterns import NamePatterns
from vibe.core.tools.mcp.remote import RemoteTool, UnusableToolError, proxy_names, remote_tool

if TYPE_CHECKING:
    from mcp import Client

MOST_PAGES = 100
"""A list that never ends is cut here."""


class ToolChoice:
    """Which of a server's tools are offered: those it may have, and of these the first ``max_tools`` by name.

    Raises:
        ConfigError: a pattern of ``disabled_tools`` is not valid.
    """

    def __init__(self, config: McpServerConfig) -> None:
        self._server = config.name
        self._most = config.max_tools
        where = f"mcp_servers[{config.name}]"
        self._disabled = NamePatterns(config.disabled_tools, where=where, key="disabled_tools")

    def allows(self, tool: str) -> bool:
        """Whether a tool is not disabled, under its own name or the one it is offered under."""
        return not any(self._disabled.matches(name) for name in (tool, *proxy_names([(self._server, tool)]).values()))

    def of(self, tools: Iterable[RemoteTool], refused: list[str]) -> tuple[RemoteTool, ...]:
        """The tools to offer, by name; ``refused`` is told how many are left out."""
        found = sorted(tools, key=lambda tool: tool.name)
        if len(found) > self._most:
            refused.append(f"{len(found) - self._most} of {len(found)} tools, since its max_tools is {self._most}")
        return tuple(found[: self._most])


async def list_tools(client: Client, choice: ToolChoice, refused: list[str]) -> tuple[RemoteTool, ...]:
    """The tools of a server that are offered, by name; ``refused`` gets a sentence for each that can't be used."""
    from mcp.types import PaginatedRequestParams  # noqa: PLC0415  costs most of a second

    tools: dict[str, RemoteTool] = {}
    if client.server_capabilities.tools is None:
        return ()
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await client.session.list_tools(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
        for tool in page.tools:
            if not choice.allows(tool.name):
                continue
            hints = tool.annotations.model_dump(by_alias=True) if tool.annotations else {}
            try:
                tools.setdefault(tool.name, remote_tool(tool.name, tool.description, tool.input_schema, hints))
            except UnusableToolError as error:
                refused.append(str(error))
        cursor = page.next_cursor
        if not cursor:
            break
    return choice.of(tools.values(), refused)
