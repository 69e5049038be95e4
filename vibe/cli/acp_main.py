"""The ``vibe-acp`` command: the agent for an editor, which starts it and speaks the Agent Client Protocol with it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from signal import Signals

from anyio import CancelScope

from vibe import __version__
from vibe.acp.server import serve_editor
from vibe.app.engine.host import allow_open_files
from vibe.cli.environment import CliEnvironment
from vibe.cli.log_file import logging_to
from vibe.cli.main import in_process, main as vibe
from vibe.cli.signals import EXIT_OF, ProcessEnd, handled_signals
from vibe.core.config.paths import VibePaths
from vibe.system.awake_loop import run_awake
from vibe.system.errors import UsageError
from vibe.system.line_wire import Wire, claimed_wire

USAGE = """usage: vibe-acp [--setup | --version | --help]

Speaks the Agent Client Protocol over standard input and output: an editor starts it, people do not. What it works with
is set as for vibe: ~/.vibe/config.toml, and the project's .vibe/config.toml once the folder is trusted.

  --setup    choose a provider and keep its key, at a terminal; the same as `vibe setup`
  --version  print the version
"""

MESSAGES_VARIABLE = "VIBE_ACP_LOGGING_ENABLED"
"""If this variable is set, every message is written to the log."""


def main(argv: Sequence[str] | None = None) -> int:
    """Serve one editor until it is gone, and return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    return vibe(["setup"]) if words in (["--setup"], ["setup"]) else in_process(words, _asked_text, _serve)


def _asked_text(words: Sequence[str]) -> str:
    version = f"vibe-acp {__version__}\n"
    return {"--version": version, "-V": version, "--help": USAGE, "-h": USAGE}.get(" ".join(words), "")


def _serve(words: Sequence[str], env: CliEnvironment) -> int:
    """Serve the client on standard input and output; the exit code is 0 or the signal's.

    Raises:
        UsageError: there are arguments, or a person at a terminal.
    """
    if words:
        raise UsageError(f"unknown argument {words[0]!r}: vibe-acp takes --setup, --version or --help")
    if env.stdin.isatty():
        raise UsageError("vibe-acp is started by an editor; to chat, run `vibe`")
    allow_open_files()
    with logging_to(VibePaths(env.home).log_file, env.environ), claimed_wire() as wire:
        if env.environ.get(MESSAGES_VARIABLE):
            logging.getLogger("vibe.acp.transport").setLevel(logging.DEBUG)
        return run_awake(_served, env, wire)


async def _served(env: CliEnvironment, wire: Wire) -> int:
    """Serve; work in progress when the editor leaves is interrupted and saved."""
    end = ProcessEnd(is_ours=env.owns_process)
    with CancelScope() as scope:

        def on_signal(which: Signals, _count: int) -> None:
            end.is_near(EXIT_OF[which])
            scope.cancel()

        async with handled_signals(env, on_signal):
            await serve_editor(wire, env, lambda: end.is_near(end.code))
    return end.code
