"""Runs shell lines as the user would."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path


def run_plain(line: str, cwd: Path, environ: Mapping[str, str]) -> None:
    """Run a line to its end. Raises if it fails."""
    subprocess.run(["bash", "-c", line], cwd=cwd, env=environ, check=True, capture_output=True, timeout=30)
