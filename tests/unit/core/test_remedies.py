from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from subagents.step.step_files import SnapshotError
from vibe.core.errors import remedy
from vibe.core.session.snapshots import Snapshots


@pytest.mark.parametrize(
    ("number", "helps"),
    [
        (errno.ENOSPC, "free some disk space"),
        (errno.ENOENT, "its folder is missing, restore it"),
        (errno.EACCES, "correct the permissions"),
        (errno.EIO, "check that it is writable"),
    ],
)
def test_what_helps_is_about_what_is_the_matter(number: int, helps: str) -> None:
    assert remedy(OSError(number, os.strerror(number))) == helps


def test_a_home_that_is_gone_is_not_said_to_be_full(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "home").write_text("")

    with pytest.raises(SnapshotError, match="its folder is missing, restore it"):
        Snapshots(tmp_path / "work", tmp_path / "home" / "session", os.environ).take(0)
