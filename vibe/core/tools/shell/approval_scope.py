"""The scope of a lasting approval of a shell line."""

from __future__ import annotations

import shlex

from vibe.core.tools.shell.parser import parse_line
from vibe.core.tools.shell.policy import reads_only_its_input
from vibe.core.tools.shell.project_checks import CHECKS, only_chooses
from vibe.core.tools.shell.wrappers import runs_others


def covered_commands(line: str) -> tuple[str, ...] | None:
    """Every command of a line as a lasting yes covers it; None if running it may do more than its words say.

    A runner of a project's own tests and checks (``npm test``, ``cargo test``) stands for itself with whatever options
    and words only choose what is tested, written ``npm test *``; everything else for its exact words. Commands that
    read nothing but what is piped into them need no yes and are left out.
    """
    parsed = parse_line(line)
    commands = parsed.commands
    if parsed.surprises or parsed.inputs or not parsed.plain or not commands:
        return None
    if any(word.text is None or word.pattern for command in commands for word in command.words):
        return None
    if any(runs_others(command.argv) for command in commands):
        return None
    kept = tuple(_covered(command.argv) for command in commands if not reads_only_its_input(command))
    return kept or tuple(shlex.join(command.argv) for command in commands)


def _covered(argv: tuple[str, ...]) -> str:
    for length in (3, 2, 1):
        check = CHECKS.get(argv[:length])
        if check is not None and only_chooses(argv[length:], check):
            return f"{shlex.join(argv[:length])} *"
    return shlex.join(argv)
