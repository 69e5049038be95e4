from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from vibe.system.process import end_session, kill_in_folder, kill_marked

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux lists processes")

SECONDS = 20.0


@contextmanager
def _shell(script: str, *, cwd: Path | None = None, **variables: str) -> Generator[subprocess.Popen[bytes]]:
    """Run a shell that leads a session. The block begins once it has printed a line."""
    process = subprocess.Popen(
        ["/bin/sh", "-c", script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        cwd=cwd,
        env={**os.environ, **variables},
        start_new_session=True,
    )
    with process:
        assert process.stdout is not None
        try:
            process.stdout.readline()
            yield process
        finally:
            process.kill()


def _is_shut(process: subprocess.Popen[bytes]) -> bool:
    """Return True if nobody writes to its pipe any more, because everything it started has ended."""
    assert process.stdout is not None
    return process.stdout.read() == b""


async def test_a_session_is_asked_to_end_before_it_is_killed() -> None:
    with _shell("trap 'echo told; exit 7' TERM; echo; while :; do sleep 0.01; done") as process:
        with anyio.fail_after(SECONDS):
            await end_session(process.pid)
        assert process.stdout is not None
        assert (process.stdout.read(), process.wait()) == (b"told\n", 7)


async def test_a_session_is_killed_with_what_does_not_listen_in_whatever_group() -> None:
    with _shell("trap '' TERM; set -m; (trap '' TERM; sleep 99) & echo; wait") as process:
        with anyio.fail_after(SECONDS):
            await end_session(process.pid)
        assert _is_shut(process)


async def test_what_carries_a_mark_is_killed_in_whatever_session() -> None:
    with _shell("setsid sleep 99 & echo; wait", SOME_MARK="here") as process, _shell("echo; exec sleep 99") as other:
        with anyio.fail_after(SECONDS):
            await kill_marked("SOME_MARK", "her")
            assert process.poll() is None
            await kill_marked("SOME_MARK", "here")
        assert _is_shut(process)
        assert other.poll() is None


def test_what_works_below_a_folder_is_killed_and_nothing_beside_it(tmp_path: Path) -> None:
    inside, beside = tmp_path / "a" / "deep", tmp_path / "ab"
    inside.mkdir(parents=True)
    beside.mkdir()
    with _shell("echo; sleep 99", cwd=inside) as process, _shell("echo; exec sleep 99", cwd=beside) as other:
        kill_in_folder(str(tmp_path / "a"))
        assert process.wait(SECONDS) in {-9, 128 + 9}, "killed, or the end of what it waited for was quicker"
        assert other.poll() is None


def test_what_a_person_runs_in_a_terminal_of_a_folder_stays(tmp_path: Path) -> None:
    ours, terminal = pty.openpty()
    with subprocess.Popen(
        ["setsid", "--ctty", "sh", "-c", "echo there; exec sleep 99"], stdin=terminal, stdout=terminal, cwd=tmp_path
    ) as process:
        try:
            assert b"there" in os.read(ours, 100)
            kill_in_folder(str(tmp_path))
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.1)
        finally:
            process.kill()
            os.close(ours)
            os.close(terminal)
