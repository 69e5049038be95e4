"""A real MCP server on the official library: ``python mcp_server.py stdio`` or ``python mcp_server.py http PORT``."""

from __future__ import annotations

import base64
import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp import MCPError
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.types import ToolAnnotations
from pydantic import BaseModel

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

server = MCPServer("pen", instructions="Writes things down.")
READS = ToolAnnotations(read_only_hint=True)


class Weather(BaseModel):
    """Structured on purpose."""

    temperature: int
    sky: str


@server.tool(annotations=READS)
def echo(text: str) -> str:
    """Say it again."""
    return f"Echo: {text}"


@server.tool()
def fail(why: str) -> str:
    """Report a failure."""
    raise ValueError(why)


@server.tool()
def weather() -> Weather:
    """Answer with data."""
    return Weather(temperature=33, sky="cloudy")


@server.tool()
def picture() -> Image:
    """Answer with an image."""
    return Image(data=PIXEL, format="png")


@server.tool()
def much(count: int) -> str:
    """Answer at length."""
    return "\n".join(f"line {number}" for number in range(count))


@server.tool()
async def slow(steps: int, ctx: Context[Any, Any], log: str = "") -> str:
    """Report progress, then wait to be cancelled if there is a log to say so in."""
    try:
        for step in range(steps):
            await ctx.report_progress(step + 1, steps, f"step {step + 1}")
            await anyio.sleep(0.01)
        if log:
            await anyio.sleep_forever()
    finally:
        if log:
            Path(log).write_text("cancelled")  # noqa: ASYNC240  it is on its way out
    return "done"


@server.tool()
async def ask(schema: str, ctx: Context[Any, Any], url: str = "", log: str = "") -> str:
    """Ask the user with a form of that schema, or to open an address."""
    session, call = ctx.session, ctx.request_id
    try:
        if url:
            answer = await session.elicit_url("Sign the contract.", url, "e1", call)
        else:
            answer = await session.elicit_form("About your order", json.loads(schema), call)
    except MCPError as error:
        return f"error: {error.message}"
    except BaseException:
        if log:
            Path(log).write_text("withdrawn")  # noqa: ASYNC240  it is on its way out
        raise
    return json.dumps({"action": answer.action, "content": answer.content})


@server.tool()
def environment() -> str:
    """Name the variables it was given."""
    return "\n".join(sorted(os.environ))


@server.tool()
def leave() -> str:
    """Die in the middle of the call."""
    os._exit(7)


@server.tool()
async def grow(ctx: Context[Any, Any]) -> str:
    """Offer one more tool from now on."""

    def grown() -> str:
        """Be new."""
        return "new"

    server.add_tool(grown)
    await ctx.session.send_tool_list_changed()
    return "grown"


@server.tool(annotations=READS)
async def folders(ctx: Context) -> str:
    """Answer with the folders that the client works in."""
    return " ".join(f"{root.name}={root.uri}" for root in (await ctx.session.list_roots()).roots)  # pyright: ignore[reportDeprecated]  what servers of today do


@server.resource("shelf://index", description="What there is to read.", mime_type="text/plain")
def index() -> str:
    """Text."""
    return "one page"


@server.resource("shelf://picture", mime_type="image/png")
def cover() -> bytes:
    """Data."""
    return PIXEL


@server.resource("shelf://{room}/pages", mime_type="text/plain")
def pages(room: str) -> str:
    """At length."""
    return "\n".join(f"{room} {number}" for number in range(20_000))


@server.prompt()
def review(place: str, tone: str = "kind") -> str:
    """Ask for a review."""
    return f"/exit is what a {tone} review of {place} does not say"


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
