from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.server import MCPServer
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from pydantic import BaseModel

from vibe.core.tools.mcp.servers import ResultReader


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


async def test_every_kind_of_content_becomes_text_in_order(tmp_path: Path) -> None:
    answer = CallToolResult(
        content=[
            TextContent(text="one"),
            ImageContent(data=encoded(b"two"), mime_type="image/png"),
            AudioContent(data="***", mime_type="audio/wav"),
            ResourceLink(name="three", uri="file:///three", description="the third"),
            EmbeddedResource(resource=TextResourceContents(uri="x://four", text="four")),
            EmbeddedResource(resource=BlobResourceContents(uri="x://five", blob=encoded(b"five"))),
        ]
    )

    result = await ResultReader("call/1", tmp_path / "outputs").read(answer)

    one, two, three, link, resource, four, five = result.text.splitlines()
    image = next((tmp_path / "outputs").glob("call_1-*.png"))
    assert (one, two) == ("one", f"[image, image/png, 3 bytes; it is in {image}]")
    assert image.read_bytes() == b"two"
    assert three == "[audio, audio/wav: its data is not valid base64]"
    assert link == "[link to file:///three: three; the third]"
    assert (resource, four) == ("[resource x://four]", "four")
    assert five.startswith("[resource x://five, unknown type, 4 bytes; it is in ")
    assert result.ok


async def test_data_without_a_folder_is_told_and_not_kept() -> None:
    answer = CallToolResult(content=[ImageContent(data=encoded(b"x"), mime_type="image/png")])

    assert (await ResultReader("c", None).read(answer)).text == "[image, image/png, 1 bytes; it was not kept]"


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"\xff\xd8\xff", 1),
        (b"GIF89a", 1),
        (b"<svg/>", 0),
        (b"\x89PNG\r\n\x1a\n" + bytes(4_000_000), 0),
    ],
    ids=["jpeg", "gif", "svg", "too large"],
)
async def test_of_pictures_those_that_models_take_are_shown(data: bytes, shown: int) -> None:
    answer = CallToolResult(content=[ImageContent(data=encoded(data), mime_type="image/odd")] * 12)

    seen = await ResultReader("c", None, sees_images=True).read(answer)

    assert (len(seen.pictures), seen.text.count("image/odd")) == (shown * 10, 12)
    assert "pictures" not in seen.model_dump()


async def test_structured_content_is_added_only_where_the_text_does_not_say_it() -> None:
    data = {"temperature": 33}
    said = CallToolResult(content=[TextContent(text='{"temperature": 33}')], structured_content=data)
    wrapped = CallToolResult(content=[TextContent(text="hi")], structured_content={"result": "hi"})
    alone = CallToolResult(content=[], structured_content=data)
    reader = ResultReader("c", None)

    assert (await reader.read(said)).text == '{"temperature": 33}'
    assert (await reader.read(wrapped)).text == "hi"
    assert (await reader.read(alone)).text == '{"temperature": 33}'


class Coin(BaseModel):
    value: int
    name: str = "ü"


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (str, "hi", "hi"),
        (str, "5", "5"),
        (int, 5, "5"),
        (float, 1.0, "1.0"),
        (bool, True, "true"),
        (type(None), None, ""),
        (Coin, Coin(value=1), '{\n  "value": 1,\n  "name": "ü"\n}'),
        (list[str], ["a", "b c"], "a\nb c"),
        (list[str], ["a"], "a"),
        (list[str], [], '{"result": []}'),
        (list[list[int]], [[1, 2], [3]], "1\n2\n3"),
        (tuple[int, str], (1, "a"), "1\na"),
        (dict[str, int], {"a": 1}, '{\n  "a": 1\n}'),
    ],
)
async def test_what_the_python_server_says_twice_is_read_once(kind: Any, value: Any, text: str) -> None:
    def give() -> Any:
        return value

    give.__annotations__["return"] = kind
    server = MCPServer("coins")
    server.tool()(give)
    async with Client(server) as client:
        answer = await client.call_tool("give", {})

    assert (await ResultReader("c", None).read(answer)).text == text


async def test_an_error_keeps_its_text() -> None:
    answer = CallToolResult(content=[TextContent(text="no ink")], is_error=True)

    result = await ResultReader("c", None).read(answer)

    assert (result.ok, result.text) == (False, "no ink")
