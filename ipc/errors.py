"""Errors of recording, sending and reading events, and reading JSON that may be anything.

IpcError                       one sentence that says what is wrong, where, and what to do
├── BusUnavailableError        pynng can't be loaded, or an address can't be used or bound
│   └── AddressInUseError      another publisher is at that address
├── JournalError               the journal can't be opened, locked, read or written
├── CodecError                 bytes that are not an event, heartbeat or answer of vibe's
├── RequestInvalidError        a command that no run accepts
├── UnknownSourceError         no run publishes, or published, under a name
└── EventsLostError            a publisher died with events that its journal does not hold
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar, cast

import msgspec

from vibe.system.files import regular_bytes
from vibe.system.plain_text import one_line

T = TypeVar("T")

INVALID_JSON = (msgspec.DecodeError, UnicodeError, RecursionError)
"""Errors that msgspec raises on invalid JSON. Neither a bad byte in a string nor deep nesting is a ``DecodeError``."""


class IpcError(Exception):
    """Anything that keeps events from being recorded, sent or read."""


class BusUnavailableError(IpcError):
    """The bus can't serve at ``address``; ``remedy`` says what would put it right."""

    def __init__(self, address: str, problem: str, remedy: str) -> None:
        super().__init__(f"the event bus can't serve at {address}: {problem}; {remedy}")
        self.address = address


class AddressInUseError(BusUnavailableError):
    """Another process publishes at ``address`` already; ``owner`` names it, if known."""

    def __init__(self, address: str, owner: str = "a program that is not registered") -> None:
        remedy = "wait for it to end, or choose another address with --bus"
        super().__init__(address, f"the address is in use by {owner}", remedy)


class JournalError(IpcError):
    """The journal at ``path`` can't be used; ``remedy`` says what would put it right."""

    def __init__(self, path: Path, problem: str, remedy: str) -> None:
        super().__init__(f"the journal {path} can't be used: {problem}; {remedy}")


class CodecError(IpcError):
    """Bytes that can't be decoded as ``what``."""

    def __init__(self, what: str, problem: str) -> None:
        super().__init__(f"not a valid {what} ({problem}): check that the other side is a vibe publisher")


class RequestInvalidError(IpcError):
    """A command can't be read or is too large; nothing was done."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"invalid request: {problem}")


class UnknownSourceError(IpcError):
    """``wanted`` names no publisher; ``known`` are the ids of those running now."""

    def __init__(self, wanted: str, problem: str, known: Sequence[str]) -> None:
        running = f"running now: {', '.join(known)}" if known else "nothing is running now"
        super().__init__(f"{wanted} {problem}: give a source, plan or session id, an address or a journal ({running})")


class EventsLostError(IpcError):
    """Events, in ``ranges`` of their numbers, were announced, but the journal they should be in doesn't hold them."""

    def __init__(self, source: str, ranges: Sequence[tuple[int, int]], journal: Path | None) -> None:
        numbers = (f"{first}" if first == last else f"{first} to {last}" for first, last in ranges)
        lost = one_line(" and ".join(numbers), 200)
        what = f"event {lost} is" if lost.isdecimal() else f"events {lost} are"
        where = f"its journal {journal} is incomplete" if journal else "its journal can't be read from here"
        super().__init__(f"run {source} ended and {what} lost: {where}; check its machine for a full or failing disk")


def decoded(
    decoder: msgspec.json.Decoder[T] | msgspec.msgpack.Decoder[T], data: bytes, error: Callable[[str], Exception]
) -> T:
    """Return ``data`` as ``decoder`` decodes it, or raise the exception that ``error`` makes of the reason why not."""
    try:
        return decoder.decode(data)
    except INVALID_JSON as reason:
        raise error(str(reason)) from reason


def read_json_file(path: Path, kind: type[T]) -> T | None:
    """Return the ``kind`` that a JSON file holds, or None if the file holds something else or can't be read."""
    try:
        return msgspec.json.decode(regular_bytes(path), type=kind)
    except (OSError, *INVALID_JSON):
        return None


def is_deep(value: object, most: int) -> bool:
    """Return whether lists and objects are nested more than ``most`` levels deep, looking at one after the other."""
    inner: list[object] = [value]
    for _ in range(most):
        inner = [one for outer in inner for one in _parts(outer)]
        if not inner:
            break
    return any(isinstance(one, dict | list) for one in inner)


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return cast("dict[str, object]", value).values()
    return cast("Sequence[object]", value) if isinstance(value, list | tuple) else ()
