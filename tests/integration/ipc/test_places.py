"""Places of a run: where it may publish, which runs are there, and what they leave behind."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ipc.bus import EventBus
from ipc.errors import AddressInUseError, BusUnavailableError, IpcError, UnknownSourceError
from ipc.places import MAX_SOCKET_PATH_BYTES, addresses_from, folder_name
from ipc.registry import LEFTOVERS_KEPT_S, SWEEP_EVERY_S, Registry, RunInfo
from tests.architecture.project import ROOT
from tests.fakes.unprivileged import folder_of_nobody
from tests.fakes.waiting import until, written
from tests.integration.ipc.processes import start

INFO = RunInfo(cwd="/", title="a test")


def open_bus(
    home: Path, source: str = "run-1", address: str | None = None, runtime_dir: Path | None = None
) -> EventBus:
    return EventBus(home, source=source, info=INFO, address=address, runtime_dir=runtime_dir)


def test_a_run_registers_itself_and_leaves_only_its_journal(vibe_home: Path) -> None:
    registry = Registry(vibe_home)
    with open_bus(vibe_home) as bus:
        folder = Path(bus.entry.journal).parent
        assert registry.running() == [bus.entry]
        assert bus.entry.pid == os.getpid()
        assert folder == vibe_home / "run" / folder_name("run-1")
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        bus.announce(RunInfo(cwd="/", title="renamed", plan_id="p"))
        assert [entry.info.plan_id for entry in registry.running()] == ["p"]

    assert registry.running() == []
    assert sorted(path.name for path in folder.iterdir()) == ["journal.jsonl", "publisher.json"]
    assert [(entry.source, entry.ended is not None) for entry in registry.ended()] == [("run-1", True)]


def test_a_run_that_is_just_closing_is_found_among_those_that_ended(vibe_home: Path) -> None:
    registry = Registry(vibe_home)
    with open_bus(vibe_home) as bus:
        registry.remove(bus.entry)  # the first part of closing, while the journal is still locked

        assert (registry.running(), [entry.source for entry in registry.ended()]) == ([], ["run-1"])


def test_latest_is_the_run_that_began_last_and_those_that_run_come_first(vibe_home: Path) -> None:
    registry = Registry(vibe_home)
    with open_bus(vibe_home, "first"):
        with open_bus(vibe_home, "second"):
            assert (registry.resolve("latest").source, registry.running_as("latest").source) == ("second", "second")
        assert (registry.resolve("latest").source, registry.running_as("latest").source) == ("first", "first")
    assert registry.resolve("latest").source == "second"
    with pytest.raises(UnknownSourceError, match="latest has ended"):
        registry.running_as("latest")


def test_the_runtime_folder_is_preferred(vibe_home: Path, tmp_path: Path) -> None:
    runtime = tmp_path / "rt"
    runtime.mkdir(mode=0o700)
    with open_bus(vibe_home, runtime_dir=runtime) as bus:
        assert bus.entry.events == f"ipc://{runtime}/vibe/{folder_name('run-1')}/events.ipc"
    with open_bus(vibe_home, "run-2", runtime_dir=tmp_path / "absent") as bus:
        assert bus.entry.events.startswith(f"ipc://{vibe_home}/run/")


@pytest.mark.parametrize("state", ["open to all", "of another user", "a link"])
def test_a_runtime_folder_that_others_can_reach_is_passed_over(vibe_home: Path, tmp_path: Path, state: str) -> None:
    runtime = tmp_path / "rt"
    (runtime / "vibe").mkdir(mode=0o700, parents=True)
    if state == "open to all":
        (runtime / "vibe").chmod(0o755)
    elif state == "a link":
        (runtime / "vibe").rename(runtime / "other")
        (runtime / "vibe").symlink_to("other")
    elif os.geteuid() != 0:
        pytest.skip("only root gives folders away")
    else:
        os.chown(runtime / "vibe", 12345, 12345)
    with open_bus(vibe_home, runtime_dir=runtime) as bus:
        assert bus.entry.events == f"ipc://{vibe_home}/run/{folder_name('run-1')}/events.ipc"
    assert not [*(runtime / "vibe").iterdir()]


def test_a_runtime_folder_that_is_too_deep_is_passed_over(vibe_home: Path, tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir(mode=0o700)
    with open_bus(vibe_home, runtime_dir=deep) as bus:
        assert bus.entry.events.startswith(f"ipc://{vibe_home}/run/")


def test_a_home_that_is_too_deep_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BusUnavailableError, match=r"at most 107 bytes; set XDG_RUNTIME_DIR or VIBE_HOME"):
        open_bus(tmp_path / ("h" * 100))


def test_the_longest_path_that_fits_works_and_one_more_byte_does_not(vibe_home: Path) -> None:
    room = MAX_SOCKET_PATH_BYTES - len(str(vibe_home)) - len("/.control")
    with open_bus(vibe_home, address=f"ipc://{vibe_home}/{'n' * room}"):
        pass
    with pytest.raises(BusUnavailableError, match="has 108 bytes, at most 107 are allowed"):
        open_bus(vibe_home, address=f"ipc://{vibe_home}/{'n' * (room + 1)}")


def test_a_live_address_is_refused_and_says_whose_it_is(vibe_home: Path) -> None:
    address = f"ipc://{vibe_home}/own.sock"
    with open_bus(vibe_home, "first", address):
        with pytest.raises(AddressInUseError, match=r"in use by run first \('a test'\), process \d+; wait"):
            open_bus(vibe_home, "second", address)
        assert [entry.source for entry in Registry(vibe_home).running()] == ["first"]
        assert not (vibe_home / "run" / folder_name("second")).exists()


def test_a_taken_replay_address_is_refused_too(vibe_home: Path) -> None:
    with (
        open_bus(vibe_home, "first", f"ipc://{vibe_home}/own.sock.replay"),
        pytest.raises(AddressInUseError, match="a program not registered"),
    ):
        open_bus(vibe_home, "second", f"ipc://{vibe_home}/own.sock")


def test_a_dead_publisher_is_swept_and_its_socket_reused(vibe_home: Path) -> None:
    address = f"ipc://{vibe_home}/own.sock"
    publisher = start("publish", vibe_home, "first", 1000, 10, address)
    assert publisher.stdout is not None
    publisher.stdout.readline()
    publisher.send_signal(signal.SIGKILL)
    publisher.communicate()
    entry_file = vibe_home / "run" / "first.json"

    assert entry_file.exists()
    assert (vibe_home / "own.sock").exists()
    assert Registry(vibe_home).running() == []
    with open_bus(vibe_home, "second", address):
        assert not entry_file.exists()
        assert [entry.source for entry in Registry(vibe_home).running()] == ["second"]
    assert [(entry.source, entry.ended is None) for entry in Registry(vibe_home).ended()] == [
        ("second", False),
        ("first", True),
    ]


def test_the_next_run_removes_the_sockets_of_one_that_was_killed_and_keeps_its_journal(vibe_home: Path) -> None:
    publisher = start("publish", vibe_home, "first", 1000, 10)
    assert publisher.stdout is not None
    publisher.stdout.readline()
    folder = vibe_home / "run" / folder_name("first")
    with open_bus(vibe_home, "beside"):
        assert len(list(folder.glob("*.ipc"))) == 2, "it lives"
    until(lambda: written(folder / "journal.jsonl"))
    publisher.send_signal(signal.SIGKILL)
    publisher.communicate()

    with open_bus(vibe_home, "next") as bus:
        sockets = {path.parent for path in (vibe_home / "run").rglob("*.ipc")}
        assert sockets == {Path(bus.entry.journal).parent}
    assert written(folder / "journal.jsonl")


@pytest.mark.parametrize("name", ["own.sock", "own.sock.replay", "own.sock.control"])
def test_a_file_in_the_way_is_left_alone(vibe_home: Path, name: str) -> None:
    precious = vibe_home / name
    precious.write_text("precious", encoding="utf-8")
    with pytest.raises(BusUnavailableError, match="a file that is not a socket is in the way"):
        open_bus(vibe_home, address=f"ipc://{vibe_home}/own.sock")
    assert precious.read_text(encoding="utf-8") == "precious"


def test_a_missing_folder_is_one_sentence(vibe_home: Path) -> None:
    with pytest.raises(BusUnavailableError, match=r"can't be bound .*check the folder or the port"):
        open_bus(vibe_home, address=f"ipc://{vibe_home}/absent/own.sock")


def test_a_socket_in_an_open_folder_is_the_users_alone(vibe_home: Path) -> None:
    with open_bus(vibe_home, address=f"ipc://{vibe_home}/own.sock"):
        assert stat.S_IMODE((vibe_home / "own.sock").stat().st_mode) & 0o077 == 0


def test_a_bus_that_opens_leaves_the_files_of_others_their_mode(
    vibe_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(mask: int) -> int:
        raise AssertionError(f"the umask {mask:o} is that of all threads")

    monkeypatch.setattr(os, "umask", refuse)

    with open_bus(vibe_home, address=f"ipc://{vibe_home}/own.sock"):
        assert (vibe_home / "own.sock").is_socket()


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("tcp://0.0.0.0:5555", "reachable from other machines"),
        ("tcp://192.168.1.7:5555", "reachable from other machines"),
        ("tcp://*:5555", "reachable from other machines"),
        ("tcp://example.org:5555", "reachable from other machines"),
        ("tcp://[::]:5555", "reachable from other machines"),
        ("tcp://127.0.0.1", "it is not tcp://HOST:PORT"),
        ("tcp://127.0.0.1:0", "it is not tcp://HOST:PORT"),
        ("tcp://127.0.0.1:65534", "it is not tcp://HOST:PORT"),
        ("tcp://127.0.0.1:x", "it is not tcp://HOST:PORT"),
        ("tcp://127.0.0.1:5555/path", "it is not tcp://HOST:PORT"),
        ("ws://127.0.0.1:5555", "the transport is not supported"),
        ("events.ipc", "the transport is not supported"),
        ("ipc://relative/path", "the path is not absolute"),
    ],
)
def test_an_address_that_can_not_be_used_is_one_sentence(vibe_home: Path, address: str, problem: str) -> None:
    with pytest.raises(BusUnavailableError, match=problem):
        open_bus(vibe_home, address=address)
    assert not (vibe_home / "run").exists()


def test_tcp_addresses_follow_one_another() -> None:
    addresses = addresses_from("tcp://[::1]:5555")

    assert (addresses.replay, addresses.control) == ("tcp://[::1]:5556", "tcp://[::1]:5557")


def test_what_ended_long_ago_is_swept(vibe_home: Path) -> None:
    for source in ("old", "young"):
        open_bus(vibe_home, source).close()
    old = vibe_home / "run" / folder_name("old")
    young = vibe_home / "run" / folder_name("young")
    past = young.stat().st_mtime - LEFTOVERS_KEPT_S - 60
    os.utime(old / "journal.jsonl", (past, past))
    with open_bus(vibe_home, "living") as bus:
        os.utime(bus.entry.journal, (past, past))
        Registry(vibe_home).sweep(time.time() + SWEEP_EVERY_S + 1)
        assert Path(bus.entry.journal).exists()

    assert not old.exists()
    assert young.exists()


def test_starts_within_an_hour_do_not_look_through_all_folders_again(vibe_home: Path) -> None:
    now = time.time()
    open_bus(vibe_home, "old").close()
    registry, old = Registry(vibe_home), vibe_home / "run" / folder_name("old")
    registry.sweep(now)
    past = now - LEFTOVERS_KEPT_S - 60
    os.utime(old / "journal.jsonl", (past, past))

    registry.sweep(now + SWEEP_EVERY_S - 60)
    assert old.exists()
    registry.sweep(now + SWEEP_EVERY_S + 60)
    assert not old.exists()


def test_a_file_of_the_registry_that_names_another_source_is_none_of_it(vibe_home: Path) -> None:
    with open_bus(vibe_home) as bus:
        known = (vibe_home / "run" / f"{bus.entry.source}.json").read_bytes()
    for source in (b"../../x", b"another"):
        odd = vibe_home / "run" / "odd.json"
        odd.write_bytes(known.replace(bus.entry.source.encode(), source))

        with open_bus(vibe_home) as again:
            assert [entry.source for entry in Registry(vibe_home).running()] == [again.entry.source]
        assert odd.exists()


@pytest.mark.parametrize("look", [Registry.running, Registry.ended, Registry.sweep])
def test_runs_that_can_not_be_listed_are_not_taken_for_none(look: Callable[[Registry], object]) -> None:
    with folder_of_nobody() as home:
        (home / "run").mkdir(mode=0o000)

        with pytest.raises(IpcError, match=r"/run can't be listed \(Permission denied\): correct"):
            look(Registry(home))


def test_a_source_that_can_name_no_file_is_refused(vibe_home: Path) -> None:
    with pytest.raises(ValueError, match=r"'\.\./x' must be"):
        open_bus(vibe_home, "../x")


def test_a_missing_pynng_is_one_sentence(vibe_home: Path, tmp_path: Path) -> None:
    (tmp_path / "pynng.py").write_text("raise OSError('libnng is broken')", encoding="utf-8")
    script = """
        import sys
        from pathlib import Path
        sys.path.insert(0, sys.argv[2])
        import ipc.bus
        from ipc.errors import BusUnavailableError
        from ipc.registry import RunInfo
        assert "pynng" not in sys.modules
        try:
            ipc.bus.EventBus(Path(sys.argv[1]), source="run-1", info=RunInfo(cwd="/"))
        except BusUnavailableError as error:
            print(error)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(vibe_home), str(tmp_path)]
    said = subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True)

    assert "the package pynng can't be loaded (libnng is broken); reinstall it" in said.stdout
