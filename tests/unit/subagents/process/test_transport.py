from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from subagents.process import transport
from subagents.process.protocol import LinkError
from subagents.process.transport import Lines
from tests.fakes.memory_link import End, memory_link, socket_link

both = pytest.mark.parametrize("ends_of", [memory_link, socket_link])
Ends = Callable[[], tuple[End, End]]


@both
async def test_lines_arrive_whole_in_order_and_then_the_end(ends_of: Ends) -> None:
    ours, theirs = ends_of()
    sent = [b"x" * size for size in (1, 0, 7, 1_000, 3)]
    for line in sent[:3]:
        ours.post(line + b"\n")
    for line in sent[3:]:
        await ours.send(line + b"\n")
    ours.close()

    assert [await theirs.receive() for _ in sent] == sent
    assert await theirs.receive() is None
    theirs.close()


@both
async def test_a_large_line_waits_for_whoever_reads_it(ends_of: Ends) -> None:
    ours, theirs = ends_of()
    large = b"x" * 5_000_000
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(ours.send, large + b"\n")
            group.start_soon(ours.send, b"small\n")
            assert await theirs.receive() == large
            assert await theirs.receive() == b"small"
    ours.close()
    theirs.close()


@both
async def test_what_nobody_is_there_to_read_is_lost(ends_of: Ends) -> None:
    ours, theirs = ends_of()
    theirs.close()

    ours.post(b"one\n")
    await ours.send(b"two\n")

    assert await ours.receive() is None
    ours.close()


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_lines_come_out_whole_however_they_arrive(size: int) -> None:
    sent = [b'{"n":%d}\n' % number for number in range(20)]
    stream, lines = b"".join(sent), Lines()

    cut = [line for start in range(0, len(stream), size) for line in lines.feed(stream[start : start + size])]

    assert [line + b"\n" for line in cut] == sent


def test_a_line_torn_off_by_a_death_never_comes_out() -> None:
    assert Lines().feed(b'{"type":"ended"}\n{"type":"end') == [b'{"type":"ended"}']


def test_a_line_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "LONGEST_LINE", 1000)
    lines = Lines()
    lines.feed(b"x" * 1000)

    with pytest.raises(LinkError, match="more than 1000 bytes"):
        lines.feed(b"x")
