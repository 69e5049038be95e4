"""An attempt on a worker, as the run sees it, and the exchange of paths between two machines."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from pathlib import Path

from anyio import to_thread
from msgspec import Struct, json

from ipc.events import Event
from ipc.sink import EventSink
from subagents.process.protocol import LinkError
from subagents.process.transport import Transport
from subagents.remote.frames import FilePart, Frame, FrameLink, LineBatch, OrderRefused, PackPart, ProcessGone, WorkTree
from subagents.remote.keeper import store_part
from subagents.remote.trees import check_out, checked_commit, unpack
from subagents.worktree.errors import GitFailedError
from subagents.worktree.worktree import Worktree
from vibe.system.errors import error_as

RUN_EVENTS = ("plan.", "worktree.", "session.", "prompt.", "conversation.")
"""Prefixes of the types of events that only the run may announce."""


class PathExchange:
    """Replaces paths of one machine in a text with their counterparts on another, the longest first."""

    def __init__(self, pairs: Mapping[str, str]) -> None:
        self._pairs = {_quoted(path): _quoted(other) for path, other in pairs.items()}

    def __call__(self, text: bytes) -> bytes:
        """Return the text with the other machine's paths."""
        named = sorted((path for path in self._pairs if path in text), key=len, reverse=True)
        pattern = rb"(?<![\w.-])(?:%s)(?![\w-]|\.\w)" % b"|".join(map(re.escape, named))
        return re.sub(pattern, lambda found: self._pairs[found[0]], text) if named else text

    def back(self) -> PathExchange:
        """Return the exchange in the opposite direction."""
        return PathExchange({ours.decode(): theirs.decode() for theirs, ours in self._pairs.items()})


class OwnEvents(Struct, frozen=True):
    """Passes on the events that a worker may announce: those of one step's agents."""

    _step_id: str
    _sink: EventSink

    def publish(self, event: Event) -> None:
        """Pass the event on.

        Raises:
            LinkError: it is of another step, or of a kind that only the run may announce.
        """
        kind = str(type(event).__struct_config__.tag)
        step_id = event.subagent_step_id
        if kind.startswith(RUN_EVENTS) or (step_id != self._step_id and (step_id or kind != "warning")):
            raise LinkError(f"a worker can't announce {kind!r} of step {step_id!r}")
        self._sink.publish(event)


class RemoteCarrier:
    """An attempt on a worker: a ``Carrier`` and its ``Transport``. Files and trees are stored as they arrive.

    A line is passed on only once everything sent before it is on disk.
    """

    def __init__(
        self, link: FrameLink, worktree: Worktree, folder: Path, exchange: PathExchange, largest_tree: int
    ) -> None:
        self.worker = ""
        """The worker's host and port."""
        self.exit_code: int | None = None
        self.printed = ""
        self.refused: OrderRefused | None = None
        """The worker's refusal, if it came after the attempt had begun."""
        self.flaw = ""
        """The reason that some of its files can't be merged, or an empty string."""
        self._link = link
        self._worktree = worktree
        self._folder = folder
        self._largest_tree = largest_tree
        self._to_worker, self._to_run = exchange, exchange.back()
        self._lines: deque[bytes] = deque()
        self._pack = bytearray()
        self._is_gone = False

    @property
    def link(self) -> Transport:
        """See ``Carrier``."""
        return self

    async def send(self, line: bytes) -> None:
        """See ``Transport``."""
        await self._link.send(LineBatch((self._to_worker(line.rstrip(b"\n")),)))

    async def receive(self) -> bytes | None:
        """See ``Transport``."""
        while not self._lines and not self._is_gone:
            await self._take(await self._link.receive())
        return self._to_run(self._lines.popleft()) if self._lines else None

    async def listen(self) -> None:
        """See ``Carrier``. The output comes with the last frame."""

    async def end(self, *, grace_seconds: float = 0.0) -> None:
        """See ``Carrier``. The worker ends everything when the link is closed, which happens with the place."""

    async def _take(self, frame: Frame) -> None:
        match frame:
            case LineBatch(lines):
                self._lines.extend(lines)
            case FilePart(data=data):
                await to_thread.run_sync(store_part, self._folder, frame, self._to_run(data))
            case PackPart(data):
                self._pack += data
                if len(self._pack) > self._largest_tree:
                    raise LinkError(f"a tree of more than {self._largest_tree} bytes")
            case WorkTree(commit, flaw):
                self.flaw = flaw
                await to_thread.run_sync(self._check_out, checked_commit(commit))
            case ProcessGone(exit_code, printed):
                self.exit_code, self.printed, self._is_gone = exit_code, printed, True
            case OrderRefused():
                self.refused, self._is_gone = frame, True
            case _:
                raise LinkError(f"{type(frame).__name__} is not a frame of a working worker")

    def _check_out(self, commit: str) -> None:
        worktree = self._worktree
        with error_as(GitFailedError, lambda error: LinkError(f"a tree that git does not take: {error}")):
            if self._pack:
                unpack(worktree.repository.git, bytes(self._pack), most=self._largest_tree, strict=True)
            if not self.flaw:
                check_out(worktree, commit)
        self._pack.clear()


def _quoted(path: str) -> bytes:
    """Return a path as it is written in JSON, without the quotes."""
    return json.encode(path)[1:-1]
