"""The content and MCP servers that an editor sends, converted to our types."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from acp.schema import (
    AudioContentBlock,
    BlobResourceContents,
    EmbeddedResourceContentBlock,
    EnvVariable,
    HttpHeader,
    HttpMcpServer,
    ImageContentBlock,
    McpServerStdio,
    ResourceContentBlock,
    SseMcpServer,
    TextContentBlock,
    TextResourceContents,
)

from vibe.acp.content import EMBEDDED_CHARS, folder_of, prompt_of, server_of
from vibe.system.errors import UsageError

ROOT = Path("/project")


def text(words: str) -> TextContentBlock:
    return TextContentBlock(type="text", text=words)


def link(uri: str, name: str = "name") -> ResourceContentBlock:
    return ResourceContentBlock(type="resource_link", name=name, uri=uri)


def embedded(uri: str, words: str) -> EmbeddedResourceContentBlock:
    return EmbeddedResourceContentBlock(type="resource", resource=TextResourceContents(uri=uri, text=words))


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("file:///project/a.py", '@"a.py"'),
        ("file:///project/with%20space.py", '@"with space.py"'),
        ("file:///project/a.py#L3-9", '@"a.py#L3-9"'),
        ("file:///project/a.py#heading", '@"a.py"'),
        ("file:///elsewhere/a.py", '@"/elsewhere/a.py"'),
        ("file:///project/%22.py", '`".py`'),
        ("file:///project/a%0Ab", "`a\nb`"),
        ("file:///project/a%00b", "name (file:///project/a%00b)"),
        ("https://example.org/a.py", "name (https://example.org/a.py)"),
        ("http://[half", "name (http://[half)"),
    ],
)
def test_a_link_to_a_file_is_a_mention_of_it_and_any_other_is_told(uri: str, told: str) -> None:
    prompt = prompt_of([text("Look at "), link(uri)], ROOT)

    assert (prompt.text, prompt.typed) == (f"Look at {told}", f"Look at {told}")


def test_what_is_embedded_stands_below_the_words_and_a_long_text_is_cut() -> None:
    data = base64.b64encode(b"\0").decode()
    blob = BlobResourceContents(uri="file:///project/b.bin", blob=data, mime_type="application/x")
    blocks = [
        text("Compare "),
        embedded("file:///project/a.py", "x" * (EMBEDDED_CHARS + 1)),
        EmbeddedResourceContentBlock(type="resource", resource=blob),
    ]

    prompt = prompt_of(blocks, ROOT)

    words, first, second = prompt.text.split("\n\n")
    assert (words, prompt.typed) == ("Compare `a.py``b.bin`", words)
    assert first == f'<file path="a.py">\n{"x" * EMBEDDED_CHARS}\n[cut here]\n</file>'
    assert second == '<file path="b.bin">\n[not text: application/x]\n</file>'


@pytest.mark.parametrize(
    ("blocks", "told"),
    [
        ([], "the prompt is empty"),
        ([text(" \n")], "the prompt is empty"),
        ([text("Hear "), AudioContentBlock(type="audio", data="", mime_type="audio/wav")], "holds audio"),
        ([ImageContentBlock(type="image", data="no base64!", mime_type="image/png")], "is not base64"),
    ],
    ids=["nothing", "blanks", "audio", "no picture"],
)
def test_what_no_model_takes_is_refused(blocks: list[Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        prompt_of(blocks, ROOT)


def test_servers_of_two_kinds_are_taken_as_they_are_given() -> None:
    stdio = McpServerStdio(name="s", command="run", args=["-x"], env=[EnvVariable(name="KEY", value="v")])
    http = HttpMcpServer(type="http", name="h", url="http://host/mcp", headers=[HttpHeader(name="A", value="b")])

    local, remote = server_of(stdio), server_of(http)

    assert (local.name, local.command, local.args, local.env) == ("s", ("run",), ("-x",), {"KEY": "v"})
    assert (remote.name, remote.url, remote.headers) == ("h", "http://host/mcp", {"A": "b"})
    with pytest.raises(UsageError, match="'e' can't be used: vibe speaks to servers by stdio and http"):
        server_of(SseMcpServer(type="sse", name="e", url="http://host", headers=[]))


@pytest.mark.parametrize("given", ["relative", "/nowhere/at/all", ""])
def test_a_folder_is_absolute_and_there(given: str, tmp_path: Path) -> None:
    assert folder_of(str(tmp_path), "the folder") == tmp_path
    with pytest.raises(UsageError, match="the folder"):
        folder_of(given, "the folder")
