"""ShellHooks: hooks' commands as child processes, in a session of their own that ends with them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import anyio
import anyio.to_thread

from vibe.core.hooks.models import Hook
from vibe.core.hooks.runner import HookStartError
from vibe.core.hooks.verdict import HookRun
from vibe.core.sandbox.temporary import brief_folder
from vibe.core.tools.process.runner import CommandStartError, child_environ, run_command

PROJECT_VARIABLE = "VIBE_PROJECT_DIR"
"""In a hook's environment: the folder whose ``.vibe`` names the hook; for the user's own, where the agent works."""

_WITH_INPUT = ("/bin/sh", "-c", 'exec /bin/sh -c "$1" <"$2"', "hook")
"""The command gets a file as its input; a pipe would block who writes to a hook that does not read."""


class ShellHooks:
    """Runs hooks in ``cwd``, an agent's root, without the secrets of ``environ``."""

    def __init__(self, cwd: Path, environ: Mapping[str, str]) -> None:
        self._cwd = cwd
        self._environ = child_environ(environ, by_vibe=True)

    async def run(self, hook: Hook, payload: str) -> HookRun:
        """See ``HookCommands``."""
        environ = {**self._environ, PROJECT_VARIABLE: str(hook.project_dir or self._cwd)}
        kept = ExitStack()
        try:
            file = await anyio.to_thread.run_sync(_keep, payload, kept)
            ended = await run_command(
                [*_WITH_INPUT, hook.command, str(file)], cwd=self._cwd, environ=environ, timeout=hook.timeout_seconds
            )
        except CommandStartError as error:
            raise HookStartError(error.problem) from error
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(kept.close)
        return HookRun(exit_code=ended.exit_code, stdout=ended.stdout, stderr=ended.stderr, timed_out=ended.timed_out)


def _keep(payload: str, kept: ExitStack) -> Path:
    """The payload in a file that nobody else may read, until ``kept`` is closed or this process is gone."""
    try:
        file = kept.enter_context(brief_folder()) / "payload.json"
        file.write_text(payload, encoding="utf-8", errors="replace")
    except OSError as error:
        raise HookStartError(f"its input can't be written: {error.strerror}") from error
    return file
