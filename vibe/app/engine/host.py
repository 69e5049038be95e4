"""Host: what one process run may use of the machine, as the command line read it."""

from __future__ import annotations

import resource
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vibe.core.llm.retry import RetryPolicy

FILES_WANTED = 16_384
FILES_PER_STEP = 8
"""What a step at work holds open at most: three pipes, its conversation, a connection to the model, and then some."""
FILES_RESERVED = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """``home`` is the user's vibe folder, ``environ`` the variables, ``runtime_dir`` where sockets go if there is one.

    ``retries`` is how calls to a model are repeated where a provider's settings don't say; None: as usual.
    ``owns_process``: nothing else lives in this process, so that its signals mean the run and its garbage is the run's.
    """

    home: Path
    environ: Mapping[str, str]
    runtime_dir: Path | None = None
    retries: RetryPolicy | None = None
    owns_process: bool = False


def allow_open_files() -> None:
    """Raise this process's limit of open files as far as it may; for the command that owns the process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(FILES_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def steps_at_once(wanted: int) -> int:
    """Return how many of ``wanted`` steps can work side by side, by the files this process may still open; at least 1."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return wanted
    left = limit - sum(1 for _ in Path("/dev/fd").iterdir()) - FILES_RESERVED
    return max(1, min(wanted, left // FILES_PER_STEP))
