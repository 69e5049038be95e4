from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from vibe.system.files import FileLock, holder_of, try_lock, wait_for_lock

HOLD = (
    "import sys, time; from pathlib import Path; from vibe.system.files import FileLock\n"
    "assert FileLock.acquire(Path(sys.argv[1])); print('held', flush=True); time.sleep(600)"
)


def test_one_holder_at_a_time_and_its_pid_is_said(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    held = FileLock.acquire(path)
    assert held is not None
    assert (FileLock.acquire(path), holder_of(path)) == (None, os.getpid())
    held.release()
    held.release()
    assert holder_of(path) is None
    again = FileLock.acquire(path)
    assert again is not None
    again.release()


def test_a_lock_goes_with_a_killed_process(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert (FileLock.acquire(path), holder_of(path)) == (None, holder.pid)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    held = FileLock.acquire(path)
    assert held is not None
    held.release()


def test_a_child_process_does_not_keep_a_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    held = FileLock.acquire(path)
    assert held is not None
    with subprocess.Popen(["sleep", "600"], close_fds=False) as child:
        held.release()
        again = FileLock.acquire(path)
        child.kill()
    assert again is not None
    again.release()


def test_a_lock_is_waited_for_up_to_a_deadline(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    held = FileLock.acquire(path)
    assert held is not None
    began = time.monotonic()
    assert FileLock.acquire(path, 0.05) is None
    assert time.monotonic() - began >= 0.05
    threading.Timer(0.05, held.release).start()
    later = FileLock.acquire(path, 60)
    assert later is not None
    later.release()


def test_a_brief_lock_takes_its_file_along_and_is_never_held_twice(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    inside = overlaps = 0

    def work() -> None:
        nonlocal inside, overlaps
        for _ in range(50):
            held = FileLock.acquire(path, 60, brief=True)
            assert held is not None
            inside += 1
            overlaps += inside != 1
            inside -= 1
            held.release()

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert (overlaps, path.exists()) == (0, False)


def test_a_lock_whose_folder_was_removed_is_not_held(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    held = FileLock.acquire(path)
    assert held is not None
    path.unlink()
    fresh = FileLock.acquire(path)
    assert fresh is not None, "the file that is there now is nobody's"
    fresh.release()
    held.release()


@pytest.mark.parametrize(("first", "second", "free"), [(True, True, True), (True, False, False), (False, True, False)])
def test_shared_locks_go_together(tmp_path: Path, *, first: bool, second: bool, free: bool) -> None:
    one, other = (os.open(tmp_path, os.O_RDONLY) for _ in range(2))
    try:
        assert try_lock(one, shared=first)
        assert wait_for_lock(other, 0, shared=second) is free
    finally:
        os.close(one)
        os.close(other)
