"""Opens a conversation line by line at this process's terminal, and returns its end as an exit code."""

from __future__ import annotations

from functools import partial
from signal import SIGINT, Signals

import anyio

from vibe.app.conversation.opening import Opening, PromptLimits
from vibe.app.conversation.runtime import Runtime
from vibe.cli.editor import edited
from vibe.cli.environment import CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.cli.plain.chat import PlainChat
from vibe.cli.plain.line_desk import open_lines
from vibe.cli.signals import EXIT_OF, handled_signals
from vibe.system.awake_loop import run_awake

HISTORY_FILE = "history"


def chat(opening: Opening, limits: PromptLimits, env: CliEnvironment) -> int:
    """Talk until the person leaves, and return the exit code."""
    return run_awake(_chat, opening, limits, env)


async def _chat(opening: Opening, limits: PromptLimits, env: CliEnvironment) -> int:
    def prompt() -> str:
        return talk.prompt if talk else ""

    def on_signal(which: Signals, _count: int) -> None:
        nonlocal code
        code = EXIT_OF[which]
        if talk is None or which is SIGINT:
            scope.cancel()
        else:
            talk.leave()

    talk: PlainChat | None = None
    code: int = ExitCode.INTERRUPTED
    with open_lines(env.home / HISTORY_FILE, prompt) as lines, anyio.CancelScope() as scope:
        async with Runtime(env) as runtime, handled_signals(env, on_signal) as signals:
            talk = PlainChat(runtime, opening, lines, partial(edited, env=env))
            await talk.run(limits)
        return signals.exit_code or ExitCode.DONE
    return code
