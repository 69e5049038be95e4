from __future__ import annotations

import os
import pty
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from io import BytesIO, TextIOWrapper
from pathlib import Path
from types import MappingProxyType
from typing import TextIO

import pytest

from vibe.cli import piped
from vibe.cli.environment import CliEnvironment
from vibe.cli.piped import NOTHING_CAME, read_context
from vibe.system.errors import UsageError


def environment(stdin: TextIO) -> CliEnvironment:
    out = TextIOWrapper(BytesIO(), "utf-8")
    return CliEnvironment(
        home=Path("/none"), cwd=Path("/"), environ=MappingProxyType({}), stdin=stdin, stdout=out, stderr=out
    )


@pytest.fixture
def opened() -> Iterator[Callable[[int], TextIO]]:
    with ExitStack() as closing:
        yield lambda descriptor: closing.enter_context(os.fdopen(descriptor, encoding="utf-8"))


def test_a_pipe_without_a_writer_is_not_waited_for_and_that_is_said(
    opened: Callable[[int], TextIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(piped, "FIRST_BYTE_SECONDS", 0.05)
    ours, theirs = os.pipe()
    try:
        assert read_context(environment(opened(ours)), waits=False) == (b"", NOTHING_CAME)
    finally:
        os.close(theirs)
    assert "to wait for it, add -" in NOTHING_CAME


def test_a_socket_without_a_writer_is_not_waited_for(
    opened: Callable[[int], TextIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(piped, "FIRST_BYTE_SECONDS", 0.05)
    ours, theirs = socket.socketpair()
    with theirs:
        assert read_context(environment(opened(ours.detach())), waits=False) == (b"", NOTHING_CAME)


@pytest.mark.parametrize("nonblocking", [False, True])
def test_a_slow_pipe_is_read_to_its_end(
    opened: Callable[[int], TextIO], monkeypatch: pytest.MonkeyPatch, *, nonblocking: bool
) -> None:
    ours, theirs = os.pipe()
    os.set_blocking(ours, not nonblocking)
    os.write(theirs, b"first ")

    def write() -> None:
        time.sleep(0.2)
        os.write(theirs, b"last")
        os.close(theirs)

    monkeypatch.setattr(piped, "FIRST_BYTE_SECONDS", 0.05)
    writer = threading.Thread(target=write)
    writer.start()
    assert read_context(environment(opened(ours)), waits=False) == (b"first last", "")
    writer.join()


def test_with_a_dash_the_first_byte_may_take_longer(
    opened: Callable[[int], TextIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(piped, "FIRST_BYTE_SECONDS", 0.01)
    ours, theirs = os.pipe()

    def write() -> None:
        time.sleep(0.2)
        os.write(theirs, b"late")
        os.close(theirs)

    writer = threading.Thread(target=write)
    writer.start()
    assert read_context(environment(opened(ours)), waits=True) == (b"late", "")
    writer.join()


def test_a_file_is_read_from_where_it_stands(opened: Callable[[int], TextIO], tmp_path: Path) -> None:
    (tmp_path / "f").write_text("one\ntwo\n")
    descriptor = os.open(tmp_path / "f", os.O_RDONLY)
    os.lseek(descriptor, 4, os.SEEK_SET)
    assert read_context(environment(opened(descriptor)), waits=False) == (b"two\n", "")


def test_terminals_devices_closed_descriptors_and_ended_pipes_bring_nothing_without_a_word(
    opened: Callable[[int], TextIO],
) -> None:
    master, terminal = pty.openpty()
    ours, theirs = os.pipe()
    os.close(theirs)
    closed = TextIOWrapper(BytesIO(b"x"), "utf-8")
    closed.close()
    given = [
        opened(terminal),
        opened(os.open("/dev/null", os.O_RDONLY)),
        opened(os.open("/dev/zero", os.O_RDONLY)),
        opened(ours),
        closed,
    ]
    try:
        assert [read_context(environment(stdin), waits=False) for stdin in given] == [(b"", "")] * 5
    finally:
        os.close(master)


def test_what_is_too_long_is_refused(
    opened: Callable[[int], TextIO], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(piped, "MOST_BYTES", 1_000)
    (tmp_path / "f").write_bytes(b"x" * 1_001)
    with pytest.raises(UsageError, match="standard input is longer than 64 MiB: put it in a file"):
        read_context(environment(opened(os.open(tmp_path / "f", os.O_RDONLY))), waits=False)
