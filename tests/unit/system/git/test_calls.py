from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from vibe.system.git.calls import GitCall, git_environ, run_git


def call(script: str, folder: Path, seconds: float = 60) -> GitCall:
    words = ("-c", f"alias.script=!{script} #", "script")
    return GitCall(words=words, folder=folder, environ=git_environ(os.environ, folder), seconds=seconds)


def test_a_command_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run_git(call("exec sleep 99", tmp_path, seconds=0.3))


def test_one_that_says_no_more_and_takes_too_long_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run_git(call("exec sleep 99 >&- 2>&-", tmp_path, seconds=0.3))


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="the library looks for the end now and again here")
def test_the_end_of_a_command_is_not_looked_for_now_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    naps: list[float] = []
    monkeypatch.setattr(time, "sleep", naps.append)
    ended = run_git(call("echo done; exec sleep 0.2 >&- 2>&-", tmp_path))
    assert (ended.code, ended.text, naps) == (0, "done", [])
