"""The commands of a plan that a model wrote, shown to the person at the terminal, who says whether they may run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import anyio

from vibe.app.plan.command_consent import CommandLine
from vibe.cli.environment import CliEnvironment
from vibe.cli.terminal.approval_text import visible
from vibe.cli.terminal.prompt_queue import PromptQueue

YES = frozenset({"y", "yes"})


def accept_commands(lines: Sequence[CommandLine], writes: Sequence[str], env: CliEnvironment) -> bool:
    """Show them all and ask; False where nobody is at a terminal, or the answer is anything but yes."""
    if not (env.stdin.isatty() and env.stdout.isatty()):
        return False
    return anyio.run(partial(_ask, lines, writes, env))


async def _ask(lines: Sequence[CommandLine], writes: Sequence[str], env: CliEnvironment) -> bool:
    shown = "".join(f"  {one.step_id}{' (check)' if one.check else ''}: {visible(one.line)}\n" for one in lines)
    files = f"and its steps would edit these files: {', '.join(map(visible, writes))}\n" if writes else ""
    text = f"A model wrote this plan. It would run these commands without asking again:\n{shown}{files}"
    async with PromptQueue(env).conversation(text) as conversation:
        answer = await conversation.answer("Run them? [y/N] > ")
    return (answer or "").strip().lower() in YES
