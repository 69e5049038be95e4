"""A server's resources: what it has to read, by address, within bounds."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vibe.core.plain_text import plain_line, shortened
from vibe.core.tools.mcp.remote import RemoteTool, pages

if TYPE_CHECKING:
    from mcp import Client

READ_RESOURCE = "read_resource"
MOST_RESOURCES = 1_000
URI_LENGTH = 2_000
ABOUT_LENGTH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteResource:
    """A resource as its server lists it, or a template of some: its ``uri`` has names in braces to fill in."""

    uri: str
    about: str

    def line(self) -> str:
        """Return it for a model to choose from."""
        return f"{self.uri}  {self.about}".rstrip()


async def list_resources(client: Client) -> tuple[RemoteResource, ...]:
    """Return the resources of a server, then its templates, in its own order."""
    if client.server_capabilities.resources is None:
        return ()
    found: dict[str, RemoteResource] = {}
    async for page in pages(lambda cursor: client.list_resources(cursor=cursor)):
        for listed in page.resources:
            _add(found, listed.uri, listed.title or listed.name, listed.mime_type, listed.description)
    async for page in pages(lambda cursor: client.list_resource_templates(cursor=cursor)):
        for listed in page.resource_templates:
            _add(found, listed.uri_template, listed.title or listed.name, listed.mime_type, listed.description)
    return tuple(found.values())[:MOST_RESOURCES]


def _add(found: dict[str, RemoteResource], uri: str, *about: str | None) -> None:
    if uri.isprintable() and 0 < len(uri) <= URI_LENGTH:
        text = plain_line("; ".join(filter(None, about)))
        found.setdefault(uri, RemoteResource(uri=uri, about=shortened(text, ABOUT_LENGTH)))


def resource_tool(server: str) -> RemoteTool:
    """Return what is offered where a server has resources, as if it were a tool of its own."""
    return RemoteTool(
        name=READ_RESOURCE,
        description=(
            f"Read a resource of the MCP server {server}, such as a document or a table, by its uri. Without a uri: "
            "list its resources; those with names in {braces} are read with these filled in."
        ),
        schema=json.dumps({"type": "object", "properties": {"uri": {"type": "string"}}, "additionalProperties": False}),
        read_only=True,
        repeatable=True,
        reads_resources=True,
    )
