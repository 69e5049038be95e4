"""The ``vibe`` command: runs one command line in a process of its own."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from vibe import __version__
from vibe.cli.exit_codes import ExitCode
from vibe.cli.streams import problem_of, settle, standard_streams, unwritten
from vibe.system.errors import EnvironmentFailure

if TYPE_CHECKING:
    from vibe.cli.environment import CliEnvironment

HELP = frozenset({"-h", "--help", "help"})
COLLECTED_AT = (150_000, 10, 10)
"""Thresholds of the garbage collector.

They are high because what is loaded at the start stays: searching it ten times was a tenth of the start.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; help and the version load almost nothing."""
    return in_process(list(sys.argv[1:] if argv is None else argv), _asked_text)


def in_process(
    words: Sequence[str],
    asked_text: Callable[[Sequence[str]], str],
    act: Callable[[Sequence[str], CliEnvironment], int] | None = None,
) -> int:
    """Print the text that the words ask for, else carry out the command line or ``act``, and return the exit code.

    The process must be this command's own.
    """
    try:
        text = asked_text(words)
        if text:
            return _print(text)
        gc.set_threshold(*COLLECTED_AT)
        from vibe.cli.environment import CliEnvironment  # noqa: PLC0415  too slow for help and the version
        from vibe.cli.run import carried_out, run_command_line

        env = CliEnvironment.from_process()
        return run_command_line(words, env) if act is None else carried_out(partial(act, words), env)
    except EnvironmentFailure as error:
        return _refuse(str(error))
    except KeyboardInterrupt:  # while modules are loaded, or the last output waits for its reader
        return ExitCode.INTERRUPTED
    finally:
        gc.freeze()  # the interpreter searches for garbage before it ends, for up to a fifth of a short command's time


def _asked_text(arguments: Sequence[str]) -> str:
    """Return the text that the words ask for instead of work, or ``""`` if they ask for work."""
    if arguments in (["--version"], ["-V"]):
        return f"vibe {__version__}\n"
    if HELP.isdisjoint(arguments):
        return ""
    from argparse import Namespace  # noqa: PLC0415  too slow for the version

    from vibe.cli.grammar import read_words  # noqa: PLC0415  as above
    from vibe.cli.parser import CommandLineError, TextRequested  # noqa: PLC0415  as above

    try:
        read_words(arguments, Namespace())
    except TextRequested as shown:
        return shown.text
    except CommandLineError:  # reported later, like any other error
        return ""
    return ""


def _print(text: str) -> int:
    _, stdout, _ = standard_streams(os.environ)
    stdout.write(text)
    settle(stdout)
    problem = problem_of(stdout)
    return ExitCode.DONE if problem is None else _refuse(unwritten(problem))


def _refuse(sentence: str) -> int:
    _, _, stderr = standard_streams(os.environ)
    stderr.write(f"vibe: {sentence}\n")
    return ExitCode.ENVIRONMENT


if __name__ == "__main__":
    sys.exit(main())
