from __future__ import annotations

import io
import os
from collections.abc import Iterator

import pytest

from vibe.cli.streams import OutputStream, forgive, problem_of


@pytest.fixture
def torn_pipe() -> Iterator[int]:
    """Yield the writing end of a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


def text(descriptor: int) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BufferedWriter(OutputStream(descriptor)), encoding="utf-8", write_through=True)


def test_a_reader_that_left_is_an_error_until_it_is_forgiven(torn_pipe: int) -> None:
    stream = text(torn_pipe)
    stream.write("one")
    with pytest.raises(BrokenPipeError):
        stream.flush()

    forgive(stream)
    stream.write("two")
    stream.flush()

    assert problem_of(stream) is None


def test_a_full_device_is_a_problem_that_is_kept() -> None:
    descriptor = os.open("/dev/full", os.O_WRONLY)
    stream = text(descriptor)
    forgive(stream)

    stream.write("one")
    stream.flush()

    problem = problem_of(stream)
    assert problem is not None
    assert problem.strerror == "No space left on device"
    os.close(descriptor)


def test_a_descriptor_that_does_not_wait_gets_everything() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    output = OutputStream(writer)
    got = bytearray()
    sent = 0
    while sent < 200_000:  # more than a pipe holds
        sent += output.write(b"x" * 50_000)
        got += os.read(reader, 50_000)
    os.close(writer)
    while data := os.read(reader, 65_536):
        got += data
    os.close(reader)

    assert len(got) == sent


def test_other_streams_have_no_problem() -> None:
    stream = io.StringIO()
    forgive(stream)

    assert problem_of(stream) is None
