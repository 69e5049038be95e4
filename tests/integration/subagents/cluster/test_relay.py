"""Steps whose links lead through the scheduler, many at once, and what the scheduler keeps of their messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from distributed.security import Security

from subagents.cluster import client, comm_link
from subagents.cluster.comm_link import RelayPlugin, call_handler
from tests.fakes.cluster import RemoteRun, cluster
from tests.integration.subagents.worktree.rig import FILES, Rig, worktree_task
from vibe.core.messages import NeverStop, Outcome

STEPS = 12


async def test_many_attempts_at_once_are_made_by_way_of_the_scheduler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def around(address: str, security: Mapping[str, Any], call: Mapping[str, object]) -> Any:
        if "to" not in call:
            raise OSError("no way there")
        return await call_handler(address, security, call)

    monkeypatch.setattr(client, "call_handler", around)
    rig = Rig(tmp_path).create(FILES)
    results: dict[str, tuple[Outcome, str, int]] = {}
    with cluster(tmp_path, 4, 4) as made:
        async with RemoteRun(rig).executor(made.scheduler.address) as (executor, _), anyio.create_task_group() as group:

            async def work(name: str) -> None:
                done = await executor.run(worktree_task(name, command=f"echo {name} > {name}"), NeverStop())
                results[name] = done.outcome, done.detail, done.lost

            for number in range(STEPS):
                group.start_soon(work, f"s{number}")

    assert results == {f"s{number}": (Outcome.COMPLETED, "", 0) for number in range(STEPS)}
    assert [rig.read(name) for name in results] == [f"{name}\n" for name in results]
    assert rig.leftovers() == []


@dataclass
class FullStream:
    """A stream to an end that accepts nothing."""

    def writing(self) -> bool:
        return True

    async def write(self, _data: bytes) -> None:
        await anyio.sleep_forever()


@dataclass
class Endless:
    """A comm that always has more to read, and whose other end accepts nothing."""

    stream: FullStream = field(default_factory=FullStream)
    reads: int = 0

    async def read(self) -> bytes:
        self.reads += 1
        await anyio.lowlevel.checkpoint()
        return b"more"

    async def write(self, _message: object) -> None:
        await anyio.lowlevel.checkpoint()

    def abort(self) -> None:
        pass


async def test_a_relay_reads_no_more_than_the_other_end_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    run, worker, plugin = Endless(), Endless(), RelayPlugin()

    async def found(*_: object) -> Endless:
        return worker

    monkeypatch.setattr(comm_link, "call_handler", found)
    await plugin.start(SimpleNamespace(workers={"tcp://w": None}, security=Security(), handlers={}))
    async with anyio.create_task_group() as group:
        group.start_soon(plugin.relay, run, "tcp://w")
        await anyio.wait_all_tasks_blocked()
        assert (run.reads, worker.reads) == (1, 1)
        group.cancel_scope.cancel()
