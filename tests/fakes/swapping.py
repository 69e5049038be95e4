"""A program that swaps two names, as a command that still runs may do to mislead us between check and use."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

PROGRAM = """
import ctypes, glob, os, sys, time
one, other, sign = sys.argv[1:]
swap = ctypes.CDLL(None, use_errno=True).renameat2
print("began", flush=True)
while sign and not glob.glob(sign):
    pass
while True:
    if swap(-100, os.fsencode(one), -100, os.fsencode(other), 2):
        sys.exit(os.strerror(ctypes.get_errno()))
    time.sleep(0.00002)  # to wake up in the middle of what others do
    if sign:
        break
"""
"""``renameat2`` with ``RENAME_EXCHANGE``: at any moment, both names are there."""


@contextmanager
def swapping(one: Path, other: Path, once: str = "") -> Generator[None]:
    """Swap two names again and again while the block runs, or once, as soon as something matches the glob ``once``."""
    program = [sys.executable, "-c", PROGRAM, one, other, once]
    with subprocess.Popen(program, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"began\n"
        try:
            yield
            assert process.poll() == (0 if once else None)
        finally:
            process.kill()
