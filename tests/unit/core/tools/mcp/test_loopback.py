from __future__ import annotations

import pytest
from anyio import to_thread

from tests.fakes.browser import visited
from vibe.core.tools.mcp.login import Loopback


async def test_the_first_answer_with_the_right_state_counts() -> None:
    notices: list[str] = []
    async with Loopback(notices.append).listening(0) as loopback:
        early = await to_thread.run_sync(visited, f"{loopback.redirect_uri}?code=0&state=")
        loopback.state = "mine"
        pages = [
            await to_thread.run_sync(visited, f"{loopback.redirect_uri}{query}")
            for query in ("", "?state=mine", "?code=1&state=theirs", "?code=2&state=mine", "?code=3&state=mine")
        ]
        answer = await loopback.answer()

    assert (early[0], [status for status, _ in pages]) == (400, [404, 404, 400, 200, 409])
    assert dict(answer) == {"code": "2", "state": "mine"}
    assert len(notices) == 2


async def test_a_port_that_is_taken_is_told() -> None:
    async with Loopback(print).listening(0) as first:
        port = int(first.redirect_uri.split(":")[2].split("/")[0])
        with pytest.raises(OSError, match="in use"):
            async with Loopback(print).listening(port):
                pass
