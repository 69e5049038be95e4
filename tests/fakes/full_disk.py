"""A disk that is full."""

from __future__ import annotations

import resource
import sys
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def file_size_limit(size: int) -> Generator[None]:
    """Writes beyond ``size`` bytes of any file are cut short and then refused, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    writes = sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # what was cut short would be kept, and loaded by the next
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        sys.dont_write_bytecode = writes
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
