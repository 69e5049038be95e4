"""The frames between a run and a worker: lines of an attempt's protocol, and the trees and files that go with them.

Both ends greet first, the run with ``RunHello``, and stop if the other is of another version. The run sends an
``Order`` with the parts of its tree's pack, the worker answers ``ProcessReady``, and from then on lines go both ways.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol, TypeAlias

from msgspec import Struct, msgpack

from ipc.errors import decoded
from subagents.process.protocol import Hello, LinkError
from subagents.process.transport import LONGEST_LINE, Link

COMMANDS = "commands"
"""The capability of a worker that does steps which are commands."""
PART_BYTES = 8 * 1024 * 1024
"""Bytes of a pack or file in one frame. Each frame also tells the other end that the sender is alive."""
LONGEST_FRAME = LONGEST_LINE + 1024 * 1024
"""Bytes of the longest valid frame."""
MOST_FILE_BYTES = 64 * 1024 * 1024
"""Bytes of the largest file that a worker may write in a step's folder of the run."""


class Beat(Struct, frozen=True, tag="beat"):
    """A sign of life of the other end."""


class LineBatch(Struct, frozen=True, tag="lines"):
    """Lines of the attempt's protocol, without their newlines."""

    lines: tuple[bytes, ...]


class RunHello(Struct, frozen=True, kw_only=True, tag="run"):
    """The greeting of a run; ``project`` names its repository."""

    hello: Hello
    run: str
    project: str


class WorkerHello(Struct, frozen=True, kw_only=True, tag="worker"):
    """The greeting of a worker, with its folders for the attempt and what it has already.

    ``commits`` are the newest that it has of the project. ``knows_run`` says that it doesn't need its ``RunParts``.
    """

    hello: Hello
    checkout: str
    steps: str
    workspace: str
    home: str
    commits: tuple[str, ...] = ()
    knows_run: bool = False
    host: str = ""


class RunParts(Struct, frozen=True, kw_only=True):
    """Everything that the steps of a run need: the document, and files of the vibe home by their names there."""

    document: bytes
    files: Mapping[str, bytes] = {}
    capabilities: tuple[str, ...] = ()
    agents: int = 0
    """The number of steps with agents that are still to come."""


class RemoteSettings(Struct, frozen=True, kw_only=True):
    """Settings of steps on workers, as in ``[cluster]``; ``largest_tree`` is in bytes.

    A worker runs the commands ``setup`` once for each content of the files ``setup_keys``. ``share`` are the paths that
    attempts get as links to the result.
    """

    checkpoint_seconds: float = 10.0
    largest_tree: int = 2_000_000_000
    setup: tuple[str, ...] = ()
    setup_keys: tuple[str, ...] = ()
    share: tuple[str, ...] = ()


class Order(Struct, frozen=True, kw_only=True, tag="order"):
    """An attempt to prepare for.

    The parts of each of ``files``, named below the steps' folder, follow, and then those of a pack, unless the worker
    ``has_tree``.
    """

    step_id: str
    has_agent: bool
    commit: str
    prefix: str = ""
    """The workspace's path in the tree."""
    has_tree: bool = False
    run: RunParts | None = None
    files: tuple[str, ...] = ()
    settings: RemoteSettings


class PackPart(Struct, frozen=True, tag="pack"):
    """A part of a pack of git objects, or of one of an order's files."""

    data: bytes
    is_last: bool = True


class PackMissing(Struct, frozen=True, tag="missing"):
    """The worker lacks objects that it was expected to have, so it needs the whole tree."""


class ProcessReady(Struct, frozen=True, tag="ready"):
    """The attempt's process is running, and lines may be sent."""


class OrderRefused(Struct, frozen=True, tag="refused"):
    """The worker can't do the attempt; ``reason`` is that of a step's result."""

    reason: str
    detail: str


class FilePart(Struct, frozen=True, tag="kept"):
    """A part of a file in the step's folder, to append to it, or to begin a new one with."""

    name: str
    data: bytes
    is_new: bool = False


class WorkTree(Struct, frozen=True, tag="work"):
    """The attempt's files are now those of this commit, whose pack came before.

    ``flaw`` says why they can't all be committed, if so.
    """

    commit: str
    flaw: str = ""


class ProcessGone(Struct, frozen=True, tag="gone"):
    """The last frame: the attempt's process has ended, with everything it started."""

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

encode_frame = msgpack.Encoder().encode
"""Encodes a frame as bytes."""
_decoder: msgpack.Decoder[Frame] = msgpack.Decoder(Frame)


class FrameLink(Link[Frame], Protocol):
    """One end of a link between a run and a worker."""

    def post(self, frame: Frame) -> None:
        """Send a frame, which is lost if the other end is gone."""

    async def receive(self) -> Frame:
        """Return the next frame that is no beat.

        Raises:
            LinkLostError: the link has ended, and all is read.
            LinkError: the frame is invalid.
        """
        ...


def decode_frame(data: object) -> Frame:
    """Return the frame in ``data``.

    Raises:
        LinkError: it holds no frame, or one that is too long.
    """
    if not isinstance(data, bytes):
        raise LinkError("not a frame: no bytes")
    if len(data) > LONGEST_FRAME:
        raise LinkError(f"a frame of {len(data)} bytes")
    frame = decoded(_decoder, data, lambda problem: LinkError(f"not a frame: {problem}"))
    if isinstance(frame, LineBatch) and any(len(line) > LONGEST_LINE for line in frame.lines):
        raise LinkError(f"a message of more than {LONGEST_LINE} bytes")
    return frame


def pieces_of(data: bytes) -> Iterator[bytes]:
    """Cut ``data`` into pieces that fit in a frame. The cuts are at ends of lines, if possible, to keep paths whole."""
    start = 0
    while len(data) - start > PART_BYTES:
        end = start + PART_BYTES
        end = data.rfind(b"\n", start, end) + 1 or end
        yield data[start:end]
        start = end
    yield data[start:]


def parts_of(data: bytes) -> list[PackPart]:
    """Return a pack or a file as frames."""
    pieces = list(pieces_of(data))
    return [PackPart(piece, is_last=number == len(pieces)) for number, piece in enumerate(pieces, 1)]
