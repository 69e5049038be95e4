from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from msgspec.structs import replace

from ipc.events import WarningEvent
from tests.fakes.engine import Bench
from tests.fakes.models import FakeModel, answer, calling
from tests.fakes.turns import turn_in
from tests.integration.core.session.repository import ENVIRON, repository
from tests.unit.core.middleware.turn_contexts import Talk
from vibe.core.agent_loop import AgentLoop
from vibe.core.llm.errors import ModelError
from vibe.core.llm.port import Completion, ModelObserver, ModelRequest
from vibe.core.messages import AssistantMessage, Outcome, ToolCall, UserMessage
from vibe.core.middleware.file_history import FileHistory
from vibe.core.session.snapshots import Point, Snapshots

READ = ("read_file", {"path": "a.txt"})
LOOK = ("bash", {"command": "cat a.txt"})
BASH = ("bash", {"command": "echo more >> a.txt"})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return repository(tmp_path / "w", {"a.txt": "a\n"})


def bench_of(root: Path, snapshots: Snapshots, *answers: Completion) -> Bench:
    def current() -> Snapshots:
        return snapshots

    turn = turn_in(root, locks=root.parent / "locks")
    return Bench(root=root, answers=answers, middleware=(FileHistory(current, turn),), turn=turn)


async def taken(snapshots: Snapshots) -> list[Point]:
    return await anyio.to_thread.run_sync(snapshots.points)


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


async def test_after_lines_that_are_known_to_read_nothing_is_recorded(root: Path, tmp_path: Path) -> None:
    snapshots = Snapshots(root, tmp_path, ENVIRON)
    turns = (calling(LOOK), calling(LOOK, READ), calling(LOOK, BASH), calling(LOOK), calling(BASH), answer("done"))

    await bench_of(root, snapshots, *turns).loop.act("go")

    assert [(snapshot.messages, snapshot.found) for snapshot in await taken(snapshots)] == [
        (0, True),
        (9, False),
        (13, False),
    ]


async def test_what_a_call_in_the_background_changed_later_is_recorded_when_the_work_has_ended(
    root: Path, tmp_path: Path
) -> None:
    snapshots = Watched(root, tmp_path)
    history = FileHistory(lambda: snapshots, turn_in(root, locks=tmp_path / "locks"))
    talk = Talk(messages=[UserMessage("go"), AssistantMessage("", (ToolCall("c1", "background", "{}"),))])
    async with anyio.create_task_group() as run:
        history.before_run(run)
        await history.before_tools(talk.context, [ToolCall("c1", "background", "{}")])
        (root / "a.txt").write_text("changed\n")
        await history.after_run(talk.context)

    assert await snapshots.is_complete()


class Held(Snapshots):
    """Delays recording the changes of calls until ``let`` is set."""

    let = threading.Event()

    def take(self, messages: int, *, found: bool = False) -> None:
        if not found:
            self.let.wait(10)
        super().take(messages, found=found)


async def test_the_model_is_asked_on_while_a_call_is_recorded_but_nothing_is_run(root: Path, tmp_path: Path) -> None:
    snapshots = Held(root, tmp_path, ENVIRON)
    turn = turn_in(root, locks=tmp_path / "locks")
    history = FileHistory(lambda: snapshots, turn)
    call = ToolCall("c1", "bash", "{}")
    context = Talk(messages=[UserMessage("go"), AssistantMessage("", (call,))]).context
    before, during = list[bool](), list[bool]()
    async with anyio.create_task_group() as run:
        history.before_run(run)
        await history.before_tools(context, [call])
        async with turn.held(print):
            (root / "a.txt").write_text("changed\n")
        before = [snapshot.found for snapshot in await taken(snapshots)]
        snapshots.let.set()
        async with turn.held(print):
            during = [snapshot.found for snapshot in await taken(snapshots)]

    assert before == [True]
    assert during == [True, False]


async def test_what_others_write_between_calls_is_not_the_agents(root: Path, tmp_path: Path) -> None:
    snapshots = Snapshots(root, tmp_path, ENVIRON)
    mine, theirs = (turn_in(root, locks=tmp_path / "locks", name=name) for name in ("mine", "theirs"))
    history = FileHistory(lambda: snapshots, mine)
    call = ToolCall("c1", "bash", "{}")
    context = Talk(messages=[UserMessage("go"), AssistantMessage("", (call,))]).context
    async with anyio.create_task_group() as run:
        history.before_run(run)
        await history.before_tools(context, [call])
        for name in ("one", "two"):
            async with mine.held(print):
                (root / f"mine-{name}").write_text("mine\n")
            async with theirs.held(print):
                (root / f"theirs-{name}").write_text("theirs\n")
        await history.after_run(context)

    changes = await anyio.to_thread.run_sync(changes_of, snapshots)
    assert changes == [("mine-one", False), ("theirs-one", True), ("mine-two", False)]


def changes_of(snapshots: Snapshots) -> list[tuple[str, bool]]:
    """Return the paths that changed from point to point, and whether each change was found or made by calls."""
    return [(path, point.found) for point in snapshots.points()[1:] for path in point.changed]


async def test_files_that_cannot_be_recorded_are_said_once_and_the_work_goes_on(root: Path, tmp_path: Path) -> None:
    snapshots = Snapshots(root, tmp_path, {"PATH": str(tmp_path)})
    bench = bench_of(root, snapshots, calling(BASH), calling(BASH), answer("done"))

    result = await bench.loop.act("go")

    assert result.outcome is Outcome.COMPLETED
    codes = [event.code for event in bench.events(WarningEvent) if isinstance(event, WarningEvent)]
    assert codes == ["snapshot.off"]
    assert [bool(point.lost) for point in await taken(snapshots)] == [True]


class Watched(Snapshots):
    """Tells whether it is at work, and when it begins to record the changes of calls."""

    def __init__(self, root: Path, folder: Path) -> None:
        super().__init__(root, folder, ENVIRON)
        self.at_work = False
        self.began = threading.Event()

    def take(self, messages: int, *, found: bool = False) -> None:
        self.at_work = True
        if not found:
            self.began.set()
        super().take(messages, found=found)
        self.at_work = False

    async def is_complete(self) -> bool:
        """Return True if the last snapshot matches the files."""
        changed = await anyio.to_thread.run_sync(self.changes)
        last = (await taken(self))[-1]
        return not changed and not last.found


@dataclass(frozen=True, kw_only=True)
class End:
    """A way in which the work ends right after files were changed."""

    name: str
    answers: Sequence[Completion | ModelError]
    max_turns: int | None = None
    reason: str


@pytest.mark.parametrize(
    "end",
    [
        End(name="limit", answers=[calling(BASH)] * 9, max_turns=2, reason="turns"),
        End(name="loop", answers=[calling(BASH)] * 99, reason="loop"),
        End(name="failure", answers=[calling(BASH), ModelError("no such model")], reason="model"),
    ],
    ids=lambda end: end.name,
)
async def test_however_the_work_ends_what_it_changed_is_recorded_by_then(root: Path, tmp_path: Path, end: End) -> None:
    snapshots = Watched(root, tmp_path)
    turn = turn_in(root, locks=tmp_path / "locks")
    middleware = (FileHistory(lambda: snapshots, turn),)
    bench = Bench(root=root, answers=end.answers, max_turns=end.max_turns, middleware=middleware, turn=turn)

    result = await bench.loop.act("go")

    assert (result.reason, snapshots.at_work) == (end.reason, False)
    assert await snapshots.is_complete()


async def test_what_a_call_changed_that_was_cancelled_is_recorded_by_then(root: Path, tmp_path: Path) -> None:
    snapshots = Watched(root, tmp_path)
    slow = ("bash", {"command": "echo half >> a.txt; sleep 99"})
    turn = turn_in(root, locks=tmp_path / "locks")
    answers = [calling(BASH), calling(slow)]
    bench = Bench(root=root, answers=answers, middleware=(FileHistory(lambda: snapshots, turn),), turn=turn)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(bench.loop.act, "go")
            while "half" not in await anyio.Path(root / "a.txt").read_text():  # noqa: ASYNC110  a program writes it
                await anyio.sleep(0.01)
            group.cancel_scope.cancel()

    assert not snapshots.at_work
    assert await snapshots.is_complete()


async def test_a_cancellation_waits_for_the_turn_that_is_being_recorded(root: Path, tmp_path: Path) -> None:
    snapshots = Watched(root, tmp_path)

    class Silent(FakeModel):
        async def complete(self, request: ModelRequest, observer: ModelObserver) -> Completion:
            if self.requests:
                await anyio.sleep_forever()
            return await super().complete(request, observer)

    turn = turn_in(root, locks=tmp_path / "locks")
    middleware = (FileHistory(lambda: snapshots, turn),)
    bench = Bench(root=root, answers=[calling(BASH)], middleware=middleware, turn=turn)
    loop = AgentLoop(replace(bench.kit, backend=Silent([calling(BASH)])))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(loop.act, "go")
            await anyio.to_thread.run_sync(snapshots.began.wait)
            group.cancel_scope.cancel()

    assert not snapshots.at_work
    assert await snapshots.is_complete()


async def test_what_a_person_changed_stays_theirs_if_the_work_is_cancelled_before_any_call(
    root: Path, tmp_path: Path
) -> None:
    snapshots = Watched(root, tmp_path)
    history = FileHistory(lambda: snapshots, turn_in(root, locks=tmp_path / "locks"))
    call = ToolCall("c1", "bash", "{}")
    context = Talk(messages=[UserMessage("go"), AssistantMessage("", (call,))]).context
    await anyio.to_thread.run_sync(snapshots.take, 0)
    (root / "a.txt").write_text("a person's\n")

    async with anyio.create_task_group() as run:
        history.before_run(run)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await history.before_tools(context, [call])
        await history.after_run(context)

    assert not await snapshots.is_complete()
