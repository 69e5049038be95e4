"""The executor that runs attempts in worktrees on workers, and repeats on another worker those lost with one.

The run keeps everything that exists once: ledger, events, decisions, the user's repository. Workers only run attempts.
"""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from functools import cache, partial
from operator import attrgetter
from pathlib import Path
from typing import ClassVar

import anyio
from msgspec import Struct, field, structs

from ipc.events import PlacementEvent, PlanWaitingEvent
from subagents.agent.run_services import RunServices
from subagents.executor import StepExecutor, StepResult, StepTask, StopSignal
from subagents.process.executor import Attempt
from subagents.process.protocol import Hello, LinkError, MismatchError
from subagents.remote import frames as f
from subagents.remote.carrier import OwnEvents, PathExchange, RemoteCarrier
from subagents.remote.keeper import files_to_send
from subagents.remote.places import (
    ClusterGoneError,
    NoMorePlaceError,
    PlaceFullError,
    PlaceLostError,
    PlaceRequest,
    Places,
    WorkerRefusedError,
)
from subagents.remote.trees import commit_at_head, commit_of, pack, project_name
from subagents.step.local_executor import attempt_spending, has_begun
from subagents.step.prompts import result_files
from subagents.step.tamper_guard import RunClaims
from subagents.step_result import ENVIRONMENT_REASON, LOST_REASON
from subagents.worktree.executor import refused
from subagents.worktree.repository import Repository
from subagents.worktree.worktree import Worktree
from vibe.core.messages import Outcome, Spending, total_of

logger = logging.getLogger(__name__)

ROOM_SECONDS = 0.5
"""Seconds between two looks for a worker with room for a step that has needs."""
LEFT_OUT_SECONDS = 60.0
"""Seconds for which a worker that could not do a step is given no other."""
MOST_FRESH = 2
"""The number of times a lost attempt is repeated."""
HELLO_SECONDS = 10.0
"""Seconds that a worker has to send its hello."""
READY_SECONDS = 600.0
"""Seconds that a worker without setup commands has to get ready for an attempt."""


class RunForWorkers(Struct, frozen=True, kw_only=True):
    """Everything that the steps of a run need on any machine. The document has the paths of the folders on this one.

    ``parts.files`` are named by their paths below ``home``. ``needed`` are the capabilities that a worker must have.
    """

    run_id: str
    home: Path
    steps: Path
    workspace: Path
    parts: f.RunParts
    needed: tuple[str, ...] = ()


class _SentAttempt(Struct, eq=False):
    """The things sent for an attempt: its worktree here, a commit of that, and the files of its step."""

    worktree: Worktree
    commit: str
    files: Mapping[str, bytes]


class ClusterExecutor(Struct, eq=False):
    """Does steps in worktrees on the workers of ``_places``, and passes all others to ``_local``; see ``StepExecutor``.

    ``_open_repository`` is called in a thread when the first step needs the repository.
    """

    works_elsewhere: ClassVar[bool] = True
    """See ``StepTask.setup``."""

    _local: StepExecutor
    _places: Places
    _services: RunServices
    _claims: RunClaims
    _run: RunForWorkers
    _open_repository: Callable[[], Repository]
    _settings: f.RemoteSettings = field(default_factory=f.RemoteSettings)
    _names: dict[str, str] = field(default_factory=dict[str, str])
    _choosing: anyio.Lock = field(default_factory=anyio.Lock)
    _opening: anyio.Lock = field(default_factory=anyio.Lock)
    _project: tuple[Repository, str] | None = None
    _known_trees: dict[str, str] = field(default_factory=dict[str, str])  # see ``commit_at_head``
    _sent_commits: set[str] = field(default_factory=set[str])  # commits that were sent, on which later packs may build
    _left_out: dict[str, tuple[float, str]] = field(default_factory=dict[str, "tuple[float, str]"])

    async def run(self, task: StepTask, stop: StopSignal) -> StepResult:
        """Do one attempt at a step; see ``StepExecutor``."""
        if task.workdir is None or task.conversation or task.only_checks:
            return await self._local.run(task, stop)
        started = time.monotonic()
        try:
            result = await self._until_result(task, stop)
        except NoMorePlaceError:
            result = StepResult(outcome=Outcome.INTERRUPTED, reason="stopped", detail="stopped before it had a place")
        except ClusterGoneError as error:
            result = StepResult(outcome=Outcome.INTERRUPTED, reason=ENVIRONMENT_REASON, detail=str(error))
        return structs.replace(result, duration_s=time.monotonic() - started)

    async def _until_result(self, task: StepTask, stop: StopSignal) -> StepResult:
        """Make an attempt, and repeat it when it is lost, until a worker reports its result.

        At most MOST_FRESH lost attempts are repeated, and none that has side effects.
        """
        lost: list[Spending] = []
        problem, times = "", 0
        while times <= MOST_FRESH and not (times and task.step.side_effects):
            try:
                async with self._place(task, stop) as (address, link):
                    result = await self._make(task, stop, link, address, lost)
                    return structs.replace(result, lost=times, **structs.asdict(total_of((result, *lost))))
            except WorkerRefusedError as error:
                if error.reason != ENVIRONMENT_REASON:
                    return StepResult(outcome=Outcome.FAILED, reason=error.reason, detail=str(error))
                logger.warning("step %s: %s", task.step_id, error)
                self._left_out[error.address] = anyio.current_time() + LEFT_OUT_SECONDS, str(error)
            except PlaceLostError as error:
                problem, times = str(error), times + 1
                logger.warning("step %s: %s", task.step_id, problem)
                name = self._names.get(error.address, error.address.rpartition("/")[2])
                self._announce(task, "lost", name, problem)
                # The worker may still be there. Unless it answers, it must get nothing more before it registers anew.
                await self._places.forget(error.address)
        outcome = Outcome.INTERRUPTED if task.step.side_effects else Outcome.FAILED
        result = StepResult(outcome=outcome, reason=LOST_REASON, detail=problem, lost=times)
        spent = await anyio.to_thread.run_sync(attempt_spending, self._run.steps / task.step_id, task.attempt)
        return structs.replace(result, **structs.asdict(total_of((spent, *lost))))

    @asynccontextmanager
    async def _place(self, task: StepTask, stop: StopSignal) -> AsyncGenerator[tuple[str, f.FrameLink]]:
        """Wait for a place that meets the step's needs, and announce a long wait.

        Raises:
            PlaceLostError, ClusterGoneError, NoMorePlaceError: see ``Places``.
        """
        sink = self._services.sink
        late = cache(partial(sink.publish, PlanWaitingEvent(step_id=task.step_id, waits_for="worker")))
        async with AsyncExitStack() as stack:
            while (place := await self._try_place(task, PlaceRequest(late=late, stop=stop), stack)) is None:
                late()
                await anyio.sleep(ROOM_SECONDS)
                if stop.requested:
                    raise NoMorePlaceError
            yield place

    async def _try_place(
        self, task: StepTask, wanted: PlaceRequest, stack: AsyncExitStack
    ) -> tuple[str, f.FrameLink] | None:
        """Wait for a place on a worker with room, and enter it. Return None if there is no such worker now."""
        # One step chooses at a time, because a worker's report of its room is outdated by the next place there.
        async with self._choosing if task.step.needs else nullcontext():
            found = await self._requirements(task, wanted)
            if found is not None:
                with suppress(PlaceFullError):
                    return await stack.enter_async_context(self._places.place(found))
        return None

    def _announce(self, task: StepTask, status: str, worker: str, detail: str = "") -> None:
        sink, step = self._services.sink, task.step_id
        event = PlacementEvent(subagent_step_id=step, status=status, worker=worker, attempt=task.attempt, detail=detail)
        sink.publish(event)

    async def _requirements(self, task: StepTask, wanted: PlaceRequest) -> PlaceRequest | None:
        """Return ``wanted`` with the step's priority and needs, and only workers that meet them now, or None.

        Workers that could not do a step lately are excluded.

        Raises:
            ClusterGoneError: there are no other workers.
        """
        now = anyio.current_time()
        self._left_out = {address: why for address, why in self._left_out.items() if why[0] > now}
        needs = task.step.needs
        if not self._left_out and not needs:
            return structs.replace(wanted, priority=task.step.priority)
        others = [worker for worker in await self._places.workers() if worker.address not in self._left_out]
        if self._left_out and not others:
            raise ClusterGoneError(next(iter(self._left_out.values()))[1])
        if needs:
            others = sorted((each for each in others if each.has_room(needs)), key=attrgetter("room"), reverse=True)[:1]
        amounts = {name: need for name, need in needs.items() if not isinstance(need, str)}
        addresses = tuple(worker.address for worker in others)
        placed = structs.replace(wanted, priority=task.step.priority, workers=addresses, needs=amounts)
        return placed if others else None

    async def _make(
        self, task: StepTask, stop: StopSignal, link: f.FrameLink, address: str, lost: list[Spending]
    ) -> StepResult:
        """Make an attempt at a place. If it is lost, the calls that were under way are added to ``lost``.

        Raises:
            PlaceLostError, WorkerRefusedError: the worker is lost, or can't do the step.
        """
        try:
            carrier = await self._begin(task, link, address)
        except MismatchError as error:
            raise WorkerRefusedError(address, str(error)) from error
        except (LinkError, TimeoutError) as error:
            raise PlaceLostError(address, str(error) or "it did not answer") from error
        services = structs.replace(self._services, sink=OwnEvents(task.step_id, self._services.sink))
        with self._claims.beside(task) as others:
            attempt = await Attempt(carrier, services, others).make(task, stop)
        lost += attempt.server.lost
        if attempt.server.result is not None:
            return structs.replace(_mergeable(attempt.server.result, carrier.flaw), worker=carrier.worker)
        if task.has_agent:
            services.steering.keep(task.step_id, attempt.heard)
        if carrier.refused is not None:
            if task.step.side_effects:  # they may have happened already
                raise PlaceLostError(address, carrier.refused.detail)
            raise WorkerRefusedError(address, carrier.refused.detail)
        verdict = attempt.verdict()
        if verdict.reason == LOST_REASON:
            raise PlaceLostError(address, verdict.detail)
        spent = await anyio.to_thread.run_sync(attempt_spending, self._run.steps / task.step_id, task.attempt)
        return structs.replace(verdict, worker=carrier.worker, **structs.asdict(spent))

    async def _begin(self, task: StepTask, link: f.FrameLink, address: str) -> RemoteCarrier:
        """Greet the worker, send what the attempt needs, and wait until it can begin.

        Raises:
            MismatchError: the worker is of another version, or lacks a needed capability.
            WorkerRefusedError: the worker can't do the step.
            LinkError, TimeoutError: the worker breaks off, or is silent.
            WorktreeError: Git or the disk refuses here.
        """
        repository, project = await self._opened()
        run = self._run
        hello = Hello.own(run.parts.capabilities)
        link.post(f.RunHello(hello=hello, run=run.run_id, project=project))
        sent = await anyio.to_thread.run_sync(self._attempt_to_send, task, repository)
        with anyio.fail_after(HELLO_SECONDS):
            worker = await link.receive()
        if not isinstance(worker, f.WorkerHello):
            raise LinkError(f"no hello: {type(worker).__name__}")
        hello.check(worker.hello, needed=run.needed)
        exchange = self._exchange(sent.worktree, worker)
        await self._send_order(task, link, sent, worker, exchange)
        carrier = RemoteCarrier(link, sent.worktree, run.steps / task.step_id, exchange, self._settings.largest_tree)
        # A setup may take any time. If the worker is gone, the link ends.
        with anyio.fail_after(math.inf if self._settings.setup else READY_SECONDS):
            while (frame := await link.receive()) != f.ProcessReady():
                if isinstance(frame, f.OrderRefused):
                    raise WorkerRefusedError(address, frame.detail, frame.reason)
                if not isinstance(frame, f.PackMissing):
                    raise LinkError(f"no place: {type(frame).__name__}")
                await _send_parts(link, await anyio.to_thread.run_sync(pack, repository.git, sent.commit))
        self._sent_commits.add(sent.commit)
        carrier.worker = _name_of(worker.host, address)
        self._names[address] = carrier.worker
        self._announce(task, "placed", carrier.worker)
        return carrier

    async def _send_order(
        self, task: StepTask, link: f.FrameLink, sent: _SentAttempt, worker: f.WorkerHello, exchange: PathExchange
    ) -> None:
        """Send the order, and what the attempt needs and the worker doesn't have."""
        parts = None
        if not worker.knows_run:
            parts = self._run.parts
            parts = structs.replace(parts, document=exchange(parts.document))
        has_tree = sent.commit in worker.commits
        repository = sent.worktree.repository
        order = f.Order(
            step_id=task.step_id,
            has_agent=task.has_agent,
            commit=sent.commit,
            prefix=repository.prefix,
            has_tree=has_tree,
            run=parts,
            files=tuple(sent.files),
            settings=self._settings,
        )
        await link.send(order)
        for data in sent.files.values():
            await _send_parts(link, exchange(data))
        if not has_tree:
            have = [commit for commit in worker.commits if commit in self._sent_commits]
            await _send_parts(link, await anyio.to_thread.run_sync(pack, repository.git, sent.commit, have))

    def _exchange(self, worktree: Worktree, worker: f.WorkerHello) -> PathExchange:
        """Return the exchange of paths on this machine for those on a worker.

        Raises:
            LinkError: the worker's folders are not absolute paths.
        """
        theirs = (worker.checkout, worker.steps, worker.home, worker.workspace)
        if not all(path.startswith("/") and len(path) > 1 for path in theirs):
            raise LinkError("a worker's folders are not paths")
        ours = (worktree.path, self._run.steps, self._run.home, worktree.repository.top, self._run.workspace)
        workspace = f"{worker.workspace}/{worktree.repository.prefix}".rstrip("/")
        return PathExchange(dict(zip(map(str, ours), (*theirs, workspace), strict=True)))

    def _attempt_to_send(self, task: StepTask, repository: Repository) -> _SentAttempt:
        """Return what has to be sent for an attempt. Blocks."""
        path = Path(task.workdir or "")
        for _ in Path(repository.prefix).parts:
            path = path.parent
        worktree = Worktree(repository=repository, path=path, branch="")
        continues = has_begun(self._run.steps / task.step_id, task)
        results = [Path(file) for file in result_files(task)]
        files = files_to_send(self._run.steps, task.step_id, results)
        commit = commit_of(worktree) if continues else commit_at_head(worktree, self._known_trees)
        return _SentAttempt(worktree, commit, files)

    async def _opened(self) -> tuple[Repository, str]:
        async with self._opening:
            if self._project is None:
                repository = await anyio.to_thread.run_sync(self._open_repository)
                self._project = repository, await anyio.to_thread.run_sync(project_name, repository)
            return self._project


def _name_of(host: str, address: str) -> str:
    """Return the host and port of a worker, as shown to people."""
    named, _, port = address.rpartition("/")[2].rpartition(":")
    return f"{host if re.fullmatch(r'[A-Za-z0-9.-]{1,253}', host) else named}:{port}"


async def _send_parts(link: f.FrameLink, data: bytes) -> None:
    for part in f.parts_of(data):
        await link.send(part)


def _mergeable(result: StepResult, flaw: str) -> StepResult:
    """Return the result, or a failure if the step is done but can't be merged because of a ``flaw``."""
    return refused(result, flaw) if flaw and result.outcome is Outcome.COMPLETED else result
