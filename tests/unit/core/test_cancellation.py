from __future__ import annotations

from collections.abc import Awaitable, Generator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from tests.fakes.engine import Bench
from tests.fakes.models import MODEL, answer, calling
from tests.fakes.turns import turn_in
from vibe.core.agent_loop import ActResult
from vibe.core.llm.history import normalised
from vibe.core.llm.port import Completion
from vibe.core.messages import Usage
from vibe.core.middleware.file_history import FileHistory
from vibe.core.session.folder import Transcript
from vibe.core.session.snapshots import Snapshots

MOST_WAITS = 400


@dataclass
class CancelledAtWait:
    """Runs ``work`` and cancels ``scope`` at its n-th wait, counted over the whole of its task."""

    work: Awaitable[ActResult]
    scope: anyio.CancelScope
    at: int
    waits: int = 0

    def __await__(self) -> Generator[Any, Any, ActResult]:
        steps: Generator[Any, Any, ActResult] = self.work.__await__()
        answer: Any = None
        failure: BaseException | None = None
        while True:
            try:
                waited = steps.send(answer) if failure is None else steps.throw(failure)
            except StopIteration as ended:
                return ended.value
            self.waits += 1
            if self.waits == self.at:
                self.scope.cancel()
            answer, failure = None, None
            try:
                answer = yield waited
            except BaseException as error:  # noqa: BLE001  passed on
                failure = error


def the_work(root: Path, marker: str) -> list[Completion]:
    todo = ("todo", {"action": "write", "todos": [{"id": "1", "content": "x"}]})
    full = calling(("grep", {"pattern": "hello"}), ("read_file", {"path": "a.txt"}))
    return [
        calling(("write_file", {"path": "a.txt", "content": "hello " * 300}), todo),
        calling(("bash", {"command": f"echo {marker}; sleep 0.02"}), ("bash", {"command": "echo second"})),
        Completion(
            message=full.message, finish_reason=full.finish_reason, usage=Usage(9_000, 10, 0, 1), cost_usd=0.001
        ),
        answer("a summary"),
        answer(f"done in {root.name}"),
    ]


def itself(snapshots: Snapshots) -> Snapshots:
    return snapshots


async def is_running(marker: str) -> bool:
    def look() -> bool:
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if marker.encode() in (entry / "cmdline").read_bytes():
                        return True
                except OSError:
                    continue
        return False

    return await anyio.to_thread.run_sync(look)


async def test_cancelled_at_any_wait_the_history_is_whole_and_saved_and_nothing_runs_on(tmp_path: Path) -> None:
    model = MODEL.model_copy(update={"auto_compact_threshold": 6_000})
    at, waits, ended = 0, MOST_WAITS, False
    while not ended:
        at += 1
        assert at < MOST_WAITS
        root = tmp_path / str(at)
        await anyio.Path(root / "work").mkdir(parents=True)
        marker = f"marker-{tmp_path.name}-{at}-"
        path = root / "messages.jsonl"
        snapshots = Snapshots(root / "work", root, {"PATH": "/usr/bin:/bin", "HOME": str(root)})
        turn = turn_in(root / "work", locks=root / "locks")
        bench = Bench(
            turn=turn,
            root=root / "work",
            answers=the_work(root, marker),
            transcript=Transcript(path=path),
            model_config=model,
            middleware=(FileHistory(partial(itself, snapshots), turn),),
        )
        scope = anyio.CancelScope()
        counting = CancelledAtWait(bench.loop.act("go"), scope, at)
        with scope:
            result = await counting
            ended = counting.waits < at
            assert result.text == f"done in {root.name}" or not ended
        waits = counting.waits

        messages = bench.transcript.messages
        assert normalised(messages) == messages
        assert (await anyio.to_thread.run_sync(Transcript.peek, path)).messages == messages
        with anyio.fail_after(120):
            while await is_running(marker):  # noqa: ASYNC110  other processes can only be polled
                await anyio.sleep(0.01)
    assert waits > 20
