from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from ipc.events import Fact, PlanPausedEvent
from planner.store.errors import BrokenPlanError, StoreWriteError
from planner.store.journal import PlanJournal, read_journal
from tests.unit.planner.facts import began, paused, took_up

FACTS: tuple[Fact, ...] = (took_up(1.0, None, "ä"), paused(at=2.0), began("ä", at=3.0))
LINES = [msgspec.json.encode(fact) + b"\n" for fact in FACTS]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b"".join(LINES))
    return path


def mended(path: Path) -> bytes:
    journal = PlanJournal(path)
    journal.mend(read_journal(path))
    journal.close()
    return path.read_bytes()


def test_a_sound_journal_is_read_whole_and_left_alone(path: Path) -> None:
    content = read_journal(path)
    assert tuple(content.facts) == FACTS
    assert content.dropped == ()
    assert mended(path) == b"".join(LINES)


def test_an_empty_journal_holds_nothing(path: Path) -> None:
    path.write_bytes(b"")
    assert list(read_journal(path).facts) == []
    assert mended(path) == b""


def test_a_journal_torn_anywhere_loses_its_last_line_only_and_is_mended(path: Path) -> None:
    whole = b"".join(LINES)
    sound = LINES[0] + LINES[1]
    for cut in range(len(sound) + 1, len(whole) - 1):
        path.write_bytes(whole[:cut])
        content = read_journal(path)
        assert tuple(content.facts) == FACTS[:2], cut
        assert content.dropped == (f"{path}:3: dropped a torn last line of {cut - len(sound)} bytes",)
        assert mended(path) == sound
        assert read_journal(path).dropped == ()


def test_a_last_line_that_lacks_only_its_newline_is_kept(path: Path) -> None:
    path.write_bytes(b"".join(LINES)[:-1])
    assert tuple(read_journal(path).facts) == FACTS
    assert mended(path) == b"".join(LINES)


@pytest.mark.parametrize("zeros", [1, 512, 4096])
@pytest.mark.parametrize("torn", [b"", LINES[2][:20]])
def test_a_zero_filled_end_is_dropped_with_whatever_was_torn_before_it(path: Path, zeros: int, torn: bytes) -> None:
    path.write_bytes(LINES[0] + LINES[1] + torn + b"\0" * zeros)
    content = read_journal(path)
    assert tuple(content.facts) == FACTS[:2]
    assert content.dropped[0] == f"{path}: dropped {zeros} zero bytes at its end"
    assert len(content.dropped) == (2 if torn else 1)
    assert mended(path) == LINES[0] + LINES[1]


def test_appending_after_mending_begins_a_line_of_its_own(path: Path) -> None:
    path.write_bytes(b"".join(LINES)[:-5])
    journal = PlanJournal(path)
    journal.mend(read_journal(path))
    journal.append(FACTS[2])
    journal.close()
    assert path.read_bytes() == b"".join(LINES)


@pytest.mark.parametrize(
    "broken", [b"\n", b"nonsense\n", LINES[1][:10] + b"\n", b"\xff\xfe\n", b"\0" * 40 + b"\n", LINES[1][:-1] + LINES[1]]
)
def test_a_line_broken_in_the_middle_is_an_error_with_file_and_line(path: Path, broken: bytes) -> None:
    path.write_bytes(LINES[0] + broken + LINES[2])
    with pytest.raises(BrokenPlanError, match=r"journal\.jsonl:2: is not a JSON line"):
        read_journal(path)


@pytest.mark.parametrize(
    "record", [b'{"type": "from_the_future", "ts": 1.0}\n', b'{"type": "plan.paused", "ts": 1.0}\n', b"7\n"]
)
def test_a_whole_line_that_is_no_record_is_an_error_even_at_the_end(path: Path, record: bytes) -> None:
    path.write_bytes(LINES[0] + record)
    with pytest.raises(BrokenPlanError, match=r"journal\.jsonl:2: is not a fact this version knows"):
        read_journal(path)


def test_a_missing_journal_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(BrokenPlanError, match=r"journal\.jsonl: is missing"):
        read_journal(tmp_path / "journal.jsonl")


def test_what_is_no_json_is_refused_before_anything_is_written(path: Path) -> None:
    journal = PlanJournal(path)
    with pytest.raises((TypeError, ValueError)):
        journal.append(PlanPausedEvent(reason="\ud800"))
    journal.append(FACTS[0])
    journal.close()
    assert path.read_bytes() == b"".join([*LINES, LINES[0]])


def test_facts_that_are_missing_from_the_middle_are_told(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.touch()
    for fact in FACTS:  # each from another process
        journal = PlanJournal(path)
        journal.mend(read_journal(path))
        journal.append(fact, fact)
        journal.close()
    lines = path.read_bytes().splitlines(keepends=True)
    whole = read_journal(path)
    path.write_bytes(b"".join([*lines[:2], *lines[4:]]))

    assert (whole.dropped, len(whole.facts)) == ((), 6)
    content = read_journal(path)
    assert list(content.facts) == [FACTS[0], FACTS[0], FACTS[2], FACTS[2]]
    assert content.dropped == (f"{path}:3: fact 5 is where fact 3 belongs: part of what the plan did is missing",)
    path.write_bytes(b"".join(lines[1:]))
    assert "fact 2 is where fact 1 belongs" in read_journal(path).dropped[0]


class CountingDisk:
    """Replaces fdatasync: counts the calls, and lets a test hold a flush."""

    def __init__(self, failure: OSError | None = None) -> None:
        self.flushes = 0
        self._failure = failure

    def __call__(self, fd: int) -> None:
        self.flushes += 1
        if self._failure is not None:
            raise self._failure
        os.fsync(fd)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[CountingDisk], CountingDisk]:
    def use(disk: CountingDisk) -> CountingDisk:
        monkeypatch.setattr(os, "fdatasync", disk)
        return disk

    return use


def test_what_is_on_disk_is_not_flushed_again(path: Path, disk: Callable[[CountingDisk], CountingDisk]) -> None:
    counting = disk(CountingDisk())
    journal = PlanJournal(path)
    journal.append(FACTS[1])
    journal.append(FACTS[1])
    journal.flush()
    journal.flush()
    assert counting.flushes == 1
    journal.append(FACTS[1])
    journal.flush()
    journal.close()
    assert counting.flushes == 2
    assert len(read_journal(path).facts) == 6


def test_a_disk_that_refuses_a_flush_is_never_trusted_again(
    path: Path, disk: Callable[[CountingDisk], CountingDisk]
) -> None:
    counting = disk(CountingDisk(OSError(5, "Input/output error")))
    journal = PlanJournal(path)
    journal.append(FACTS[1])
    for _ in range(3):
        with pytest.raises(StoreWriteError, match="Input/output error"):
            journal.flush()
    with pytest.raises(StoreWriteError):
        journal.append(FACTS[1])
    journal.close()
    assert counting.flushes == 1
