from __future__ import annotations

import threading
from pathlib import Path

import anyio.to_thread
import pytest

from ipc.events import WarningEvent
from tests.fakes.engine import Bench
from tests.fakes.models import answer, calling
from tests.integration.session.repository import ENVIRON, repository
from tests.unit.core.middleware.turn_contexts import Talk
from vibe.core.llm.port import Completion
from vibe.core.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from vibe.core.middleware.file_history import FileHistory
from vibe.core.outcome import Outcome
from vibe.core.session.snapshots import Snapshot, Snapshots

READ = ("read_file", {"path": "a.txt"})
BASH = ("bash", {"command": "echo more >> a.txt"})
HARMLESS = ("read_file", "grep", "todo")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return repository(tmp_path / "w", {"a.txt": "a\n"})


def bench_of(root: Path, snapshots: Snapshots, *answers: Completion) -> Bench:
    def current() -> Snapshots:
        return snapshots

    return Bench(root=root, answers=answers, middleware=(FileHistory(current, HARMLESS),))


async def taken(snapshots: Snapshots) -> list[Snapshot]:
    return await anyio.to_thread.run_sync(snapshots.taken)


async def test_turns_that_change_nothing_record_nothing(root: Path, tmp_path: Path) -> None:
    snapshots = Snapshots(root, tmp_path, ENVIRON)

    await bench_of(root, snapshots, calling(READ), calling(READ, READ), answer("done")).loop.act("go")

    assert await taken(snapshots) == []
    assert not (tmp_path / "files.git").exists()


async def test_files_are_recorded_before_the_first_change_of_a_prompt_and_after_every_one(
    root: Path, tmp_path: Path
) -> None:
    snapshots = Snapshots(root, tmp_path, ENVIRON)
    bench = bench_of(
        root, snapshots, calling(READ), calling(BASH), calling(BASH), answer("one"), calling(BASH), answer("two")
    )

    await bench.loop.act("first")
    await anyio.Path(root / "b.txt").write_text("a person's")
    await bench.loop.act("second")

    places = [(snapshot.messages, snapshot.found) for snapshot in await taken(snapshots)]
    assert places == [(0, True), (5, False), (7, False), (8, True), (11, False)]


class Held(Snapshots):
    """Records what calls came to once it is let."""

    let = threading.Event()

    def take(self, messages: int, *, found: bool = False) -> str:
        if not found:
            self.let.wait(10)
        return super().take(messages, found=found)


async def test_the_model_is_asked_on_while_a_turn_is_recorded_but_nothing_is_run(root: Path, tmp_path: Path) -> None:
    snapshots = Held(root, tmp_path, ENVIRON)
    history = FileHistory(lambda: snapshots, HARMLESS)
    call = ToolCall("c1", "bash", "{}")
    context = Talk(messages=[UserMessage("go"), AssistantMessage("", (call,)), ToolMessage("", "c1", "bash")]).context
    await history.before_tools(context, [call])
    await history.after_turn(context)
    before = [snapshot.found for snapshot in await taken(snapshots)]
    (root / "a.txt").write_text("changed\n")
    snapshots.let.set()
    await history.before_tools(context, [call])

    assert before == [True]
    assert [snapshot.found for snapshot in await taken(snapshots)] == [True, False]


async def test_files_that_cannot_be_recorded_are_said_once_and_the_work_goes_on(root: Path, tmp_path: Path) -> None:
    snapshots = Snapshots(root, tmp_path, {"PATH": str(tmp_path)})
    bench = bench_of(root, snapshots, calling(BASH), calling(BASH), answer("done"))

    result = await bench.loop.act("go")

    assert result.outcome is Outcome.COMPLETED
    codes = [event.code for event in bench.events(WarningEvent) if isinstance(event, WarningEvent)]
    assert codes == ["snapshot.off"]
