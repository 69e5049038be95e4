"""The frames between a run and a worker: lines of an attempt's protocol, and what has to travel beside them.

Both ends greet first, the run with ``RunHello``, and no more is said to one of another version. The run sends an
``Order`` with the parts of its tree's pack, the worker says ``Ready``, and from then on lines go both ways.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeAlias

import msgspec
from msgspec import Struct

from ipc.errors import decoded
from subagents.process.protocol import Hello, LinkError
from subagents.process.transport import LONGEST_LINE, Link

COMMANDS = "commands"
"""The capability of a worker: it does steps that are commands."""
PART_BYTES = 8 * 1024 * 1024
"""The most of a pack or a file in one frame; each is a word of the other end's."""
LONGEST_FRAME = LONGEST_LINE + 1024 * 1024
"""Bytes; a longer frame is invalid."""
MOST_FILE_BYTES = 64 * 1024 * 1024
"""The most bytes of a file that a worker may write in a step's folder of the run."""


class Beat(Struct, frozen=True, tag="beat"):
    """The other end is there."""


class LineBatch(Struct, frozen=True, tag="lines"):
    """Lines of the attempt's protocol, without their ends."""

    lines: tuple[bytes, ...]


class RunHello(Struct, frozen=True, kw_only=True, tag="run"):
    """The run; ``project`` names its repository."""

    hello: Hello
    run: str
    project: str


class WorkerHello(Struct, frozen=True, kw_only=True, tag="worker"):
    """The worker, where the attempt will be on it, and what it has already.

    ``commits`` are the newest that it has of the project; ``knows_run``: it needs no ``Shipped``.
    """

    hello: Hello
    checkout: str
    steps: str
    workspace: str
    home: str
    commits: tuple[str, ...] = ()
    knows_run: bool = False
    host: str = ""


class Shipped(Struct, frozen=True, kw_only=True):
    """The things that the steps of a run need: the document, and files of the home by their names there."""

    document: bytes
    files: Mapping[str, bytes] = {}
    capabilities: tuple[str, ...] = ()
    agents: int = 0
    """The number of agents still to come."""


class WorkerSetup(Struct, frozen=True, kw_only=True):
    """Commands that a worker runs once for each content of the files ``keys``; ``share``: paths linked from there."""

    commands: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    share: tuple[str, ...] = ()


class RemoteSettings(Struct, frozen=True, kw_only=True):
    """Settings of steps on workers: see ``[cluster]``; ``largest_tree`` in bytes."""

    checkpoint_seconds: float = 10.0
    largest_tree: int = 2_000_000_000
    setup: WorkerSetup = WorkerSetup()


class Order(Struct, frozen=True, kw_only=True, tag="order"):
    """An attempt to prepare for. Parts follow: of each of ``files``, below the steps' folder, then of a pack.

    No pack follows if the worker ``has_tree``.
    """

    step_id: str
    has_agent: bool
    commit: str
    prefix: str = ""
    """The workspace's path in the tree."""
    has_tree: bool = False
    shipped: Shipped | None = None
    files: tuple[str, ...] = ()
    settings: RemoteSettings


class PackPart(Struct, frozen=True, tag="pack"):
    """A part of a pack of objects, or of one of an order's files."""

    data: bytes
    is_last: bool = True


class PackMissing(Struct, frozen=True, tag="missing"):
    """The worker has not what it was thought to have: the whole tree is to be sent."""


class ProcessReady(Struct, frozen=True, tag="ready"):
    """The attempt's process is there: lines may be sent."""


class OrderRefused(Struct, frozen=True, tag="refused"):
    """The worker can't do it; ``reason`` is a step's."""

    reason: str
    detail: str


class FilePart(Struct, frozen=True, tag="kept"):
    """A part of a file in the step's folder: to be put at its end, or to be the beginning of a new one."""

    name: str
    data: bytes
    is_new: bool = False


class WorkTree(Struct, frozen=True, tag="work"):
    """The tree of the attempt's files is now that of this commit, whose pack came before. ``flaw``: some are not."""

    commit: str
    flaw: str = ""


class ProcessGone(Struct, frozen=True, tag="gone"):
    """The attempt's process has ended, and all it started; the last frame."""

    exit_code: int | None
    printed: str


Frame: TypeAlias = (
    Beat
    | LineBatch
    | RunHello
    | WorkerHello
    | Order
    | PackPart
    | PackMissing
    | ProcessReady
    | OrderRefused
    | FilePart
    | WorkTree
    | ProcessGone
)

encode_frame = msgspec.msgpack.Encoder().encode
"""Returns a frame as bytes."""
_decoder: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)


class FrameLink(Link[Frame], Protocol):
    """One end of a link between a run and a worker; beats are not received. Its taker closes it."""

    @property
    def why_lost(self) -> str:
        """The reason why there is no more to come; blank: there may be."""
        ...


def decode_frame(data: object) -> Frame:
    """Return the frame in bytes.

    Raises:
        LinkError: it is none, or holds more than it may.
    """
    if not isinstance(data, bytes):
        raise LinkError("not a frame: no bytes")
    if len(data) > LONGEST_FRAME:
        raise LinkError(f"a frame of {len(data)} bytes")
    frame = decoded(_decoder, data, lambda problem: LinkError(f"not a frame: {problem}"))
    if isinstance(frame, LineBatch) and any(len(line) > LONGEST_LINE for line in frame.lines):
        raise LinkError(f"a message of more than {LONGEST_LINE} bytes")
    return frame


def pieces_of(data: bytes) -> list[bytes]:
    """Cut what is too long for one frame; at the ends of lines, if it has such, so that no path is cut."""
    pieces: list[bytes] = []
    start = 0
    while start < len(data) or not pieces:
        end = start + PART_BYTES
        if end < len(data):
            end = data.rfind(b"\n", start, end) + 1 or end
        pieces.append(data[start:end])
        start = end
    return pieces


def parts_of(data: bytes) -> list[PackPart]:
    """Return the frames of a pack, or of a file."""
    pieces = pieces_of(data)
    return [PackPart(piece, is_last=number == len(pieces)) for number, piece in enumerate(pieces, 1)]
