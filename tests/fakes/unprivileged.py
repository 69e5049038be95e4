"""A folder in which the tests have no superuser rights, so that files can be closed to them."""

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
    """Drop superuser rights, and yield a folder that belongs to the user the process then is."""
    "".encode("utf-8-sig")  # loads what nobody might not read from the superuser's Python
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
    """Take back the rights from before, so that a superuser can look at everything."""
    who = os.geteuid(), os.getegid()
    try:
        os.seteuid(os.getuid())
        os.setegid(os.getgid())
        yield
    finally:
        os.setegid(who[1])
        os.seteuid(who[0])
