"""Host: what one process run may use of the machine, as the command line read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """``home`` is the user's vibe folder, ``environ`` the variables, ``runtime_dir`` where sockets go if there is one."""

    home: Path
    environ: Mapping[str, str]
    runtime_dir: Path | None = None
