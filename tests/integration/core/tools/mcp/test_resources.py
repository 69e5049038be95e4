"""An agent reads the resources of a server with one more tool, under the permissions of the server's tools."""

from __future__ import annotations

import re
from pathlib import Path

import anyio

from tests.fakes.mcp_peers import FAULTY, PEN, over_stdio
from tests.fakes.mcp_rig import running
from vibe.core.tools.outputs import RESULT_BYTES
from vibe.core.tools.permissions import ApprovalMode

READ = "pen_read_resource"


async def test_the_resources_of_a_server_are_listed_and_read_within_bounds(tmp_path: Path) -> None:
    async with running(tmp_path, over_stdio("pen", *PEN, "stdio")) as rig:
        listed = await rig.call(READ)
        text = await rig.call(READ, uri="shelf://index")
        data = await rig.call(READ, uri="shelf://picture")
        much = await rig.call(READ, uri="shelf://attic/pages")
        unknown = await rig.call(READ, uri="shelf://nowhere")

        assert rig.state("pen").resources == 3
    assert listed.content.splitlines() == [
        "shelf://index  index; text/plain; What there is to read.",
        "shelf://picture  cover; image/png; Data.",
        "shelf://{room}/pages  pages; text/plain; At length.",
    ]
    assert text.content == "one page"
    saved = re.search(r"image/png, \d+ bytes; it is in (\S+)\]", data.content)
    assert saved is not None
    assert (await anyio.Path(saved[1]).read_bytes()).startswith(b"\x89PNG")
    assert len(much.content.encode()) <= RESULT_BYTES
    assert "attic 0" in much.content
    assert (unknown.status, "shelf://nowhere" in unknown.content) == ("error", True)


async def test_reading_is_asked_about_and_switched_off_like_a_tool_of_the_server(tmp_path: Path) -> None:
    off = over_stdio("off", *PEN, "stdio", disabled_tools=["off_read_*"])
    async with running(tmp_path, over_stdio("pen", *PEN, "stdio"), off, over_stdio("srv", *FAULTY, "none")) as rig:
        names = {cls.get_name() for cls in rig.servers.tool_classes()}
        await rig.hire({}, ApprovalMode.ASK)
        denied = await rig.call(READ, uri="shelf://index")
        await rig.hire({READ: {"permission": "always"}}, ApprovalMode.ASK)
        allowed = await rig.call(READ, uri="shelf://index")

    assert {name for name in names if "resource" in name} == {READ}
    assert (denied.status, allowed.status) == ("denied", "ok")
