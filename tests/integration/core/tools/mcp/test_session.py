from __future__ import annotations

import base64
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from tests.fakes.mcp_peers import FAULTY, PEN, http_server, over_http, over_stdio
from tests.fakes.mcp_rig import McpRig, running
from tests.fakes.ports import free_port
from tests.fakes.tools import call
from vibe.core.tools.outputs import RESULT_BYTES
from vibe.core.tools.permissions import ApprovalMode


@asynccontextmanager
async def pen(transport: str, root: Path) -> AsyncGenerator[McpRig]:
    if transport == "stdio":
        async with running(root, over_stdio("pen", *PEN, "stdio")) as rig:
            yield rig
        return
    port = free_port()
    with http_server(*PEN, "http", str(port), port=port) as url:
        async with running(root, over_http("pen", url)) as rig:
            yield rig


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that nothing announces."""
    with anyio.fail_after(120):
        while not condition():  # noqa: ASYNC110  it happens in another process
            await anyio.sleep(0.01)


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_all_kinds_of_answers(transport: str, tmp_path: Path) -> None:
    async with pen(transport, tmp_path) as rig:
        assert (await rig.call("pen_echo", text="hi")).content == "Echo: hi"
        assert (await rig.call("pen_weather")).content.count('"temperature"') == 1
        assert "image/png" in (await rig.call("pen_picture")).content
        failed = await rig.call("pen_fail", why="no ink")
        assert failed.status == "error"
        began = anyio.current_time()
        assert (await rig.call("pen_slow", steps=60)).content == "done"
        assert (rig.progress[0], rig.progress[-1]) == ("1/60 step 1", "60/60 step 60")
        assert len(rig.progress) <= 2 + 4 * (anyio.current_time() - began)


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_server_is_told_the_workspace(transport: str, tmp_path: Path) -> None:
    folder = tmp_path / "my place"
    folder.mkdir()
    async with pen(transport, folder) as rig:
        assert (await rig.call("pen_folders")).content == f"my place={folder.as_uri()}"


@pytest.mark.parametrize(
    ("tool", "arguments"), [("pen_picture", {}), ("pen_read_resource", {"uri": "shelf://picture"})]
)
async def test_a_picture_is_shown_to_a_model_that_sees_and_told_to_every_one(
    tool: str, arguments: dict[str, str], tmp_path: Path
) -> None:
    async with pen("stdio", tmp_path) as rig:
        blind = await rig.call(tool, **arguments)
        rig.sees_images = True
        await rig.hire()
        seeing = await rig.call(tool, **arguments)

    assert ("image/png" in blind.content, "image/png" in seeing.content, blind.images) == (True, True, ())
    [shown] = seeing.images
    assert (shown.media_type, base64.b64decode(shown.data)[:4]) == ("image/png", b"\x89PNG")


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_cancelled_call_is_cancelled_at_the_server_and_the_session_goes_on(
    transport: str, tmp_path: Path
) -> None:
    log = tmp_path / "cancelled"
    async with pen(transport, tmp_path) as rig:
        async with anyio.create_task_group() as group:
            group.start_soon(rig.rig.executor.run_all, [call("c1", "pen_slow", steps=1, log=str(log))], rig.rig.record)
            await until(lambda: bool(rig.progress))
            group.cancel_scope.cancel()
        assert rig.rig.recorded[0].status == "cancelled"

        await until(log.exists)
        assert (await rig.call("pen_echo", text="still here")).content == "Echo: still here"


async def test_a_long_answer_is_cut_and_kept_whole(tmp_path: Path) -> None:
    async with pen("stdio", tmp_path) as rig:
        answer = await rig.call("pen_much", count=20_000)

        assert len(answer.content.encode()) <= RESULT_BYTES
        kept = list((tmp_path / "outputs").glob("*.txt"))
        assert len(kept) == 1
        assert kept[0].read_text().endswith("line 19999")
        assert str(kept[0]) in answer.content


async def test_a_changed_list_is_noticed_once_and_only_if_it_really_changed(tmp_path: Path) -> None:
    changes: list[str] = []

    async def note() -> None:
        await anyio.lowlevel.checkpoint()
        changes.append("changed")

    async with running(tmp_path, over_stdio("pen", *PEN, "stdio"), on_change=note) as rig:
        await until(lambda: bool(changes))  # it is ready by then
        before = {cls.get_name(): cls for cls in rig.servers.tool_classes()}
        await rig.call("pen_grow")
        await until(lambda: len(changes) == 2)

        after = {cls.get_name(): cls for cls in rig.servers.tool_classes()}
        assert set(after) - set(before) == {"pen_grown"}
        assert all(after[name] is cls for name, cls in before.items())
        await rig.hire()
        assert (await rig.call("pen_grown")).content == "new"
    assert changes == ["changed", "changed"]


async def test_a_server_gets_the_six_variables_and_what_its_entry_names(tmp_path: Path) -> None:
    environ = {**os.environ, "MISTRAL_API_KEY": "secret", "CITY": "Paris"}
    config = over_stdio("pen", *PEN, "stdio", env={"PLACE": "in ${CITY}", "PYTHONDONTWRITEBYTECODE": "1"})
    async with running(tmp_path, config, environ=environ) as rig:
        names = (await rig.call("pen_environment")).content.split()

    assert {"PATH", "PLACE"} <= set(names)
    assert not {"MISTRAL_API_KEY", "CITY"} & set(names)


async def test_an_agent_asks_before_it_calls_and_tables_decide_by_name(tmp_path: Path) -> None:
    async with running(tmp_path, over_stdio("srv", *FAULTY, "none")) as rig:
        tables = {"srv_echo": {"permission": "always"}, "srv_look": {"permission": "never"}}
        await rig.hire(tables, ApprovalMode.ASK)
        assert (await rig.call("srv_echo", text="a")).status == "ok"
        assert (await rig.call("srv_look")).status == "denied"
        await rig.hire({}, ApprovalMode.ASK)
        assert (await rig.call("srv_echo", text="a")).status == "denied"


async def test_a_hint_of_reading_only_never_grants_anything(tmp_path: Path) -> None:
    async with running(tmp_path, over_stdio("srv", *FAULTY, "none")) as rig:
        tool = next(cls for cls in rig.servers.tool_classes() if cls.get_name() == "srv_look")

        assert tool.read_only
        await rig.hire({}, ApprovalMode.ASK)
        assert (await rig.call("srv_look")).status == "denied"
