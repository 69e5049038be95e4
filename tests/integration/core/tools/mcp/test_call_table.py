from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from tests.fakes.mcp_peers import EVERYTHING, FILESYSTEM, http_server, over_http, over_stdio
from tests.fakes.mcp_rig import McpRig, running
from tests.fakes.ports import free_port

TRANSPORTS = ["stdio", "streamable-http"]


@asynccontextmanager
async def everything(transport: str, root: Path) -> AsyncGenerator[McpRig]:
    if transport == "stdio":
        async with running(root, over_stdio("everything", *EVERYTHING, "stdio")) as rig:
            yield rig
        return
    port = free_port()
    environ = {**os.environ, "PORT": str(port)}
    with http_server(*EVERYTHING, "streamableHttp", port=port, environ=environ) as url:
        async with running(root, over_http("everything", url)) as rig:
            yield rig


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.usefixtures("peers")
async def test_every_call_of_the_reference_server_comes_back_as_it_should(transport: str, tmp_path: Path) -> None:
    async with everything(transport, tmp_path) as rig:
        state = rig.state("everything")
        assert (len(state.tools), state.resources) == (14 + 1, 9)

        echo = await rig.call("everything_echo", message="hi")
        assert (echo.status, echo.content) == ("ok", "Echo: hi")

        total = await rig.call("everything_get-sum", a=2, b=3.5)
        assert (total.status, total.content) == ("ok", "The sum of 2 and 3.5 is 5.5.")

        wrong = await rig.call("everything_get-sum", a="x", b=1)
        assert wrong.status == "error"
        assert "MCP error -32602: Input validation error" in wrong.content
        assert "expected number, received string" in wrong.content

        weather = await rig.call("everything_get-structured-content", location="New York")
        assert json.loads(weather.content) == {"temperature": 33, "conditions": "Cloudy", "humidity": 82}

        image = await rig.call("everything_get-tiny-image")
        saved = re.search(r"\[image, image/png, (\d+) bytes; it is in (\S+)\]", image.content)
        assert saved is not None
        data = await anyio.Path(saved[2]).read_bytes()
        assert data.startswith(b"\x89PNG")
        assert len(data) == int(saved[1])

        roots = await rig.call("everything_get-roots-list")
        assert f"URI: {tmp_path.as_uri()}" in roots.content

        links = await rig.call("everything_get-resource-links", count=2)
        assert links.content.count("[link to ") == 2

        resource = await rig.call("everything_get-resource-reference", resourceType="Text", resourceId=1)
        assert "[resource " in resource.content

        read = await rig.call("everything_read_resource", uri="demo://resource/dynamic/text/1")
        assert read.content.startswith("Resource 1: This is a plaintext resource")

        unknown = await rig.call("everything_no-such")
        assert unknown.status == "error"
        assert "everything_echo" in unknown.content


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.usefixtures("peers")
async def test_progress_is_shown_while_the_call_runs(transport: str, tmp_path: Path) -> None:
    async with everything(transport, tmp_path) as rig:
        long = await rig.call("everything_trigger-long-running-operation", duration=1, steps=4)

        assert long.content == "Long running operation completed. Duration: 1 seconds, Steps: 4."
        assert (rig.progress[0], rig.progress[-1]) == ("1/4", "4/4")


@pytest.mark.usefixtures("peers")
async def test_the_file_server_stays_in_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    (folder / "a.txt").write_text("inside\n")
    (folder / "out").symlink_to("/etc/hostname")
    async with running(tmp_path, over_stdio("fs", *FILESYSTEM, str(folder))) as rig:
        assert len(rig.state("fs").tools) == 14

        inside = await rig.call("fs_read_text_file", path=str(folder / "a.txt"))
        outside = await rig.call("fs_read_text_file", path="/etc/hostname")
        link = await rig.call("fs_read_text_file", path=str(folder / "out"))

        assert (inside.status, inside.content) == ("ok", "inside\n")
        assert outside.status == link.status == "error"
        assert "path outside allowed directories" in outside.content
        assert "symlink target outside" in link.content
