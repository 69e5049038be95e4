"""Tries out a sandbox before it is relied on."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from vibe.shell.sandbox.port import Sandbox, SandboxPolicy, SandboxRun, SandboxUnprovenError
from vibe.shell.sandbox.temporary import brief_folder
from vibe.system.errors import shortage
from vibe.system.files import text_of

PROBE_SECONDS = 10
TRUE = ("/bin/true",) if os.access("/bin/true", os.X_OK) else (sys.executable, "-I", "-S", "-c", "")
"""A program that does nothing."""
SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOSPC, errno.EDQUOT)
"""Errors that mean a temporary lack of resources."""
MEMORY = re.compile("MemoryError|[Cc]annot allocate|failed to map segment|max_\\*_namespaces exceeded")
LIMITS = Path("/proc/sys/user")


@contextmanager
def temporary_failures() -> Generator[None]:
    """Turn temporary failures, such as a lack of memory or files, into errors that say nothing about a sandbox.

    Raises:
        SandboxUnprovenError: a temporary failure ended the block.
    """
    try:
        yield
    except OSError as error:
        if shortage(error) is None:
            raise
        raise SandboxUnprovenError(str(error)) from error
    except MemoryError as error:
        raise SandboxUnprovenError(os.strerror(errno.ENOMEM)) from error
    except subprocess.TimeoutExpired as error:
        raise SandboxUnprovenError(f"no answer within {PROBE_SECONDS} s") from error


def run_briefly(argv: Sequence[str], environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a program that ends soon. Blocks.

    Signals of the terminal do not reach it. Ctrl-C or a lost terminal would end ``bwrap``, but not the first process of
    its namespace, which would wait for ever for the word to go on.

    Raises:
        SandboxUnprovenError: a temporary failure kept it from running to its end.
        OSError: it can't be started.
    """
    with temporary_failures():
        return subprocess.run(  # noqa: S603  our own launcher, or the system's sandbox
            argv,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_SECONDS,
            check=False,
            text=True,
            errors="replace",
            start_new_session=True,
        )


def failure_of(sandbox: Sandbox, argv: Sequence[str]) -> str:
    """Return why ``sandbox`` can't confine a program that does next to nothing, or "" if it can. Blocks.

    Raises:
        SandboxUnprovenError: a temporary failure left the question open.
        OSError: there is no room for temporary files.
    """
    with brief_folder() as temp, brief_folder() as box:
        return failure(sandbox.wrap(argv, {}, SandboxPolicy(writable=(), temp=temp, box=box)))


def failure(confined: SandboxRun) -> str:
    """Run a confined program that does next to nothing, and return why it failed, or "" if it didn't. Blocks.

    Raises:
        SandboxUnprovenError: it failed for a temporary reason, which says nothing about the next time.
    """
    try:
        ended = run_briefly(confined.argv, confined.environ)
    except OSError as error:
        return str(error)
    if ended.returncode == 0:
        return ""
    why = (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1]
    if _is_temporary(ended.stderr) or ended.returncode in {-signal.SIGKILL, 128 + signal.SIGKILL}:
        raise SandboxUnprovenError(why)
    return why


def _is_temporary(output: str) -> bool:
    """Return whether a program's output says that it failed for lack of resources that others use up."""
    if not MEMORY.search(output) and not any(os.strerror(number) in output for number in SHORTAGES):
        return False
    return not any(text_of(limit).strip() == "0" for limit in LIMITS.glob("max_*_namespaces"))  # 0 forbids them
