"""Memory for later conversations."""

from __future__ import annotations

import stat
import threading
from itertools import count
from pathlib import Path

import pytest

from tests.fakes.full_disk import file_size_limit
from vibe.core.instructions.memory import (
    MAX_ENTRIES,
    MAX_SECTION,
    MAX_TEXT,
    MemoryFileError,
    MemoryScope,
    MemoryStore,
)
from vibe.system.errors import EnvironmentFailure, UsageError

PROJECT, GLOBAL = MemoryScope.PROJECT, MemoryScope.GLOBAL


def store(tmp_path: Path, project: str = "/p") -> MemoryStore:
    ticks = count(1)
    return MemoryStore(folder=tmp_path / "memory", project=Path(project), clock=lambda: float(next(ticks)))


def test_entries_are_kept_by_project_and_for_all(tmp_path: Path) -> None:
    here, there = store(tmp_path, "/here"), store(tmp_path, "/there")
    here.add("tests run\nwith tox", PROJECT, by="agent")
    here.add("be brief", GLOBAL, by="user")

    assert [entry.text for entry in here.entries(PROJECT)] == ["tests run with tox"]
    assert there.entries(PROJECT) == ()
    assert [(entry.text, entry.by) for entry in there.entries(GLOBAL)] == [("be brief", "user")]


def test_an_entry_is_forgotten_by_its_id(tmp_path: Path) -> None:
    kept = store(tmp_path)
    entry = kept.add("old", GLOBAL, by="user")
    assert kept.remove(entry.id) == (GLOBAL, entry)
    assert kept.entries(GLOBAL) == ()
    with pytest.raises(UsageError, match=entry.id):
        kept.remove(entry.id)


@pytest.mark.parametrize("text", ["", "  \n ", "x" * (MAX_TEXT + 1)])
def test_an_entry_must_be_a_short_text(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="memory entry"):
        store(tmp_path).add(text, PROJECT, by="user")


def test_there_is_an_end_to_entries(tmp_path: Path) -> None:
    kept = store(tmp_path)
    for index in range(MAX_ENTRIES):
        kept.add(f"entry {index}", PROJECT, by="user")
    with pytest.raises(UsageError, match="remove one first"):
        kept.add("one more", PROJECT, by="user")


def test_the_section_of_a_prompt_holds_the_newest_that_fit(tmp_path: Path) -> None:
    kept = store(tmp_path)
    assert kept.prompt_section() == ""
    for index in range(20):
        kept.add(f"{index:02} " + "x" * 900, PROJECT, by="user")

    section = kept.prompt_section()
    assert len(section) < MAX_SECTION + 300
    assert "19 x" in section
    assert "\n- 00 x" not in section
    assert "older entries are left out" in section
    assert section.index("18 x") < section.index("19 x")


def test_other_users_cannot_read_it(tmp_path: Path) -> None:
    store(tmp_path).add("secret", GLOBAL, by="user")
    assert stat.S_IMODE((tmp_path / "memory" / "global.json").stat().st_mode) == 0o600


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"entries": [{"id": 3}]}', b"\xff"])
def test_a_damaged_file_is_said_and_left_alone(tmp_path: Path, data: bytes) -> None:
    kept = store(tmp_path)
    kept.add("x", GLOBAL, by="user")
    file = tmp_path / "memory" / "global.json"
    file.write_bytes(data)
    with pytest.raises(MemoryFileError, match=r"global\.json"):
        kept.add("y", GLOBAL, by="user")
    assert file.read_bytes() == data


def test_a_full_disk_is_no_matter_of_the_file(tmp_path: Path) -> None:
    kept = store(tmp_path)
    kept.add("x", GLOBAL, by="user")
    with (
        file_size_limit(10),
        pytest.raises(EnvironmentFailure, match=r"global\.json can't be written \(File too large\); raise the limit"),
    ):
        kept.add("y", GLOBAL, by="user")
    assert [entry.text for entry in kept.entries(GLOBAL)] == ["x"]


def test_several_writers_lose_nothing(tmp_path: Path) -> None:
    def write(which: int) -> None:
        for index in range(10):
            store(tmp_path).add(f"{which}-{index}", PROJECT, by="agent")

    threads = [threading.Thread(target=write, args=(which,)) for which in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store(tmp_path).entries(PROJECT)) == 40
