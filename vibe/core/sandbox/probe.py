"""Tries a sandbox before it is relied on."""

from __future__ import annotations

import subprocess

from vibe.core.sandbox.port import Confined

PROBE_SECONDS = 10


def failure(confined: Confined) -> str:
    """Run a confined program that does next to nothing, and return why it failed; empty: it did not. Blocks.

    The signals of the terminal do not reach it. Ctrl-C or a lost terminal would end ``bwrap``, but not the first
    process of its namespace, which waits to be told to go on.
    """
    try:
        ended = subprocess.run(  # noqa: S603  our own launcher, or the system's sandbox
            confined.argv,
            env=confined.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_SECONDS,
            check=False,
            text=True,
            start_new_session=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return "" if ended.returncode == 0 else (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1]
