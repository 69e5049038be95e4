"""Runs git with the user's program and settings, without hooks, and so that it can neither ask nor be led elsewhere."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from vibe.system.programs import OF_COMMANDS, guarded

GIT_SECONDS = 120.0
"""The most seconds of one git command. Checking out a large repository takes seconds."""

OPTIONS = (
    "core.fsmonitor=false", "core.untrackedCache=false", "core.hooksPath=/dev/null", "core.safecrlf=false", "gc.auto=0",
    "maintenance.auto=false", "commit.gpgSign=false", "log.showSignature=false", "log.diffMerges=separate",
    "merge.directoryRenames=false", "merge.conflictStyle=diff3", "rerere.enabled=false", "advice.addEmbeddedRepo=false",
    "submodule.recurse=false", "diff.ignoreSubmodules=all", "status.submoduleSummary=false", "protocol.ext.allow=never",
    "protocol.file.allow=never", "fetch.recurseSubmodules=false",
)  # fmt: skip
"""Settings that override whatever a repository configures."""

PROTOCOLS = "https:http:ssh:git"
"""Protocols by which to fetch the objects that a partial clone lacks."""

_KEPT = re.compile(
    r"GIT_(CONFIG_(?!PARAMETERS$).*|(AUTHOR|COMMITTER)_(NAME|EMAIL)|EXEC_PATH|CEILING_DIRECTORIES|SSL_.*)"
)
"""The variables that are kept of those that control git: who the user is, and where the configuration lies."""


class GitOutput(Struct, frozen=True, kw_only=True):
    """The output of a git command, and its exit code."""

    code: int
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        """Standard output without its trailing line breaks."""
        return os.fsdecode(self.out).rstrip("\n")

    @property
    def items(self) -> list[str]:
        """The items of a ``-z`` output."""
        return [os.fsdecode(part) for part in self.out.split(b"\0") if part]

    @property
    def closed(self) -> list[str]:
        """The folders that the command could not open."""
        return re.findall(r"could not open directory '(.+?)/?': ", os.fsdecode(self.err))

    @property
    def problem(self) -> str:
        """The error on one line."""
        lines = [line for line in self.err.decode("utf-8", "replace").splitlines() if line.strip()]
        wrong = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[0] if lines else "")
        return wrong.partition(": ")[2] if wrong.startswith(("fatal:", "error:")) else wrong or f"exit code {self.code}"


class GitCall(Struct, frozen=True, kw_only=True):
    """Arguments for git, and the folder to run it in. ``environ`` is complete (see ``git_environ``).

    ``locks`` are descriptors that the command keeps open, so that a lock lasts as long as the command, even without us.
    """

    words: tuple[str, ...]
    folder: Path
    environ: Mapping[str, str]
    stdin: bytes = b""
    seconds: float = GIT_SECONDS
    locks: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return f"GitCall(words={self.words!r}, folder={self.folder!r})"  # The environment may contain keys.


def run_git(call: GitCall) -> GitOutput:
    """Run one git command. Nothing else starts git. Blocks.

    Raises:
        OSError: it can't be started.
        subprocess.TimeoutExpired: it takes too long.
    """
    options = [word for option in OPTIONS for word in ("-c", option)]
    with _Git(
        ["git", "--no-pager", *options, *call.words],  # The first git on the PATH of its environment.
        cwd=call.folder,
        env=dict(call.environ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=call.locks,
        start_new_session=True,  # Ctrl-C must not reach git, so that a merge under way is finished.
    ) as git:
        try:
            out, err = git.communicate(call.stdin, timeout=call.seconds)
        except BaseException:
            git.kill()
            raise
    return GitOutput(code=git.returncode, out=out, err=err)


class _Git(subprocess.Popen[bytes]):
    """A process whose end is noticed at once. The standard library polls for it, at ever longer intervals."""

    def wait(self, timeout: float | None = None) -> int:
        if timeout is not None and self.returncode is None and sys.platform.startswith("linux"):
            descriptor = os.pidfd_open(self.pid)
            try:
                ended = select.poll()
                ended.register(descriptor, select.POLLIN)
                ended.poll(timeout * 1_000)
            finally:
                os.close(descriptor)
        return super().wait(timeout)


def git_environ(environ: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the user's environment, changed so that git can neither be led elsewhere nor ask.

    No program in ``folder`` is started. Reads the file system.
    """
    own = guarded(environ, [folder])
    kept = {
        name: value
        for name, value in own.items()
        if not name.startswith(("GIT_", OF_COMMANDS)) or _KEPT.fullmatch(name)
    }
    quiet = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "GIT_EDITOR": ":"}
    return {**kept, **quiet, "GIT_ALLOW_PROTOCOL": PROTOCOLS}


def without_fetching(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for git that must not fetch what a partial clone lacks."""
    return {**environ, "GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1"}
