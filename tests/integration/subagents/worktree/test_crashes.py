from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import REPOSITORY


@pytest.mark.parametrize(
    ("scenario", "first", "step"),
    [
        ("clean", 7, 23),
        ("dirty", 11, 29),
        ("conflict", 13, 31),
        ("given up", 9, 17),
        ("again", 90, 15),
        ("given up again", 95, 17),
    ],
)
def test_a_step_killed_anywhere_is_gone_on_with_as_if_nothing_had_been(
    tmp_path: Path, scenario: str, first: int, step: int
) -> None:
    words = (sys.executable, "-m", "tests.integration.subagents.worktree.crashes", tmp_path, scenario, first, step)

    ended = subprocess.run(list(map(str, words)), cwd=REPOSITORY, capture_output=True, text=True, check=False)

    *differing, last = ended.stdout.splitlines() or [ended.stderr]
    assert not differing, ended.stdout
    assert int(last.removeprefix("tried ").partition(",")[0]) >= 4, ended.stdout + ended.stderr
