"""A full disk, simulated by a limit on the size of files."""

from __future__ import annotations

import resource
import sys
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def file_size_limit(size: int) -> Generator[None]:
    """Cut off and then refuse writes beyond ``size`` bytes of any file, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    writes = sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # a truncated .pyc would be kept, and loaded by the next test
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        sys.dont_write_bytecode = writes
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
