"""A folder in which the tests are no superuser, so that a file can be closed to them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

NOBODY = 65_534


@contextmanager
def folder_of_nobody() -> Generator[Path]:
    """A folder that belongs to whoever the process is meanwhile."""
    patch = pytest.MonkeyPatch()
    folder = Path(tempfile.mkdtemp(prefix="undo-"))
    was = os.geteuid(), os.getegid()
    try:
        patch.setenv("HOME", str(folder))
        if was[0] == 0:
            os.chown(folder, NOBODY, NOBODY)
            os.setegid(NOBODY)
            os.seteuid(NOBODY)
        yield folder
    finally:
        os.seteuid(was[0])
        os.setegid(was[1])
        for found, _, _ in os.walk(folder):
            Path(found).chmod(0o700)
        shutil.rmtree(folder)
        patch.undo()


@contextmanager
def as_before() -> Generator[None]:
    """Who the tests are outside, to look at everything, where that is the superuser."""
    who = os.geteuid(), os.getegid()
    try:
        os.seteuid(os.getuid())
        os.setegid(os.getgid())
        yield
    finally:
        os.setegid(who[1])
        os.seteuid(who[0])
