"""The journal: line N is event N, whatever happened to the file."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from ipc.errors import JournalError
from ipc.journal import Journal, JournalReader, is_being_written
from tests.architecture.project import ROOT


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def write(path: Path, count: int) -> None:
    journal = Journal(path)
    for number in range(1, count + 1):
        assert journal.append(b'{"n":%d}' % number) == number
    journal.close()


def read_all(path: Path, first: int = 1) -> list[tuple[int, bytes]]:
    reader = JournalReader(path, first)
    batch = reader.read_batch()
    assert reader.read_batch() == []
    reader.close()
    return batch


def test_line_n_is_event_n(path: Path) -> None:
    write(path, 3)

    assert path.read_bytes() == b'{"n":1}\n{"n":2}\n{"n":3}\n'
    assert read_all(path, 2) == [(2, b'{"n":2}'), (3, b'{"n":3}')]


def test_reading_takes_both_ends_and_stays_inside(path: Path) -> None:
    journal = Journal(path)
    for number in range(1, 6):
        journal.append(b"%d" % number)

    assert journal.read(2, 4) == [b"2", b"3", b"4"]
    assert journal.read(-3, 99) == [b"1", b"2", b"3", b"4", b"5"]
    assert journal.read(6, 9) == []
    assert journal.read(4, 2) == []
    journal.close()


def test_a_batch_is_bounded_but_never_empty(path: Path) -> None:
    journal = Journal(path)
    for _ in range(10):
        journal.append(b"x" * 99)

    assert len(journal.read(1, 10, limit=250)) == 2
    assert len(journal.read(3, 10, limit=10)) == 1
    journal.close()


@pytest.mark.parametrize("tail", [b'{"torn":', b"\x00" * 4096, b'\x00\x00\x00\n{"n":5}\n', b'{"n":4'])
def test_a_damaged_tail_is_cut_off_and_counted(path: Path, tail: bytes) -> None:
    write(path, 3)
    with path.open("ab") as file:
        file.write(tail)

    assert [seq for seq, _ in read_all(path)] == [1, 2, 3]
    journal = Journal(path)
    assert journal.repaired_bytes == len(tail)
    assert journal.head == 3
    assert journal.append(b'{"n":4}') == 4
    journal.close()
    assert read_all(path, 3) == [(3, b'{"n":3}'), (4, b'{"n":4}')]


def test_a_whole_journal_needs_no_repair(path: Path) -> None:
    write(path, 2)
    journal = Journal(path)

    assert (journal.repaired_bytes, journal.head) == (0, 2)
    journal.close()


def test_two_writers_are_refused_and_a_living_one_is_seen(path: Path) -> None:
    journal = Journal(path)

    assert is_being_written(path)
    with pytest.raises(JournalError, match="another process is writing it"):
        Journal(path)
    journal.close()
    assert not is_being_written(path)
    assert not is_being_written(path.with_name("absent"))


def test_a_folder_in_the_way_is_one_sentence(path: Path) -> None:
    path.mkdir()
    with pytest.raises(JournalError, match="Is a directory"):
        Journal(path)


def test_a_missing_journal_is_one_sentence(path: Path) -> None:
    with pytest.raises(JournalError, match="No such file"):
        JournalReader(path)


def test_what_a_full_disk_refuses_stays_readable_and_is_written_later(path: Path) -> None:
    script = """
        import resource, sys
        from pathlib import Path
        from ipc.journal import Journal, JournalReader
        journal = Journal(Path(sys.argv[1]))
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
        bodies = [b"%03d" % n + b"x" * 97 for n in range(1, 31)]
        for body in bodies:
            journal.append(body)
        assert journal.head == 30, journal.head
        assert len(journal.unwritten) == 21, journal.unwritten
        assert journal.error is not None
        assert Path(sys.argv[1]).read_bytes() == b"".join(body + b"\\n" for body in bodies[:9])
        seen = []
        while len(seen) < 30:
            seen += journal.read(len(seen) + 1, 99, limit=450)
        assert seen == bodies
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        journal.append(b"last")
        assert journal.unwritten == []
        assert journal.error is not None
        journal.close()
        assert Path(sys.argv[1]).read_bytes() == b"".join(body + b"\\n" for body in [*bodies, b"last"])
    """
    command = [sys.executable, "-B", "-c", textwrap.dedent(script), str(path)]
    subprocess.run(command, check=True, cwd=ROOT)
