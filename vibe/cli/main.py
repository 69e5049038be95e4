"""The ``vibe`` command: one command line in a process of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from vibe import __version__
from vibe.cli.exit_codes import ExitCode
from vibe.cli.streams import forgive, problem_of, standard_streams, unwritten
from vibe.system.errors import EnvironmentFailure


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; ``--version`` loads nothing else."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments in (["--version"], ["-V"]):
        return _print_version()
    from vibe.cli.environment import CliEnvironment  # noqa: PLC0415  costs what --version must not
    from vibe.cli.run import run_command_line

    try:
        env = CliEnvironment.from_process()
    except EnvironmentFailure as error:
        return _refuse(str(error))
    return run_command_line(arguments, env)


def _print_version() -> int:
    _, stdout, _ = standard_streams(os.environ)
    forgive(stdout)
    stdout.write(f"vibe {__version__}\n")
    stdout.flush()
    problem = problem_of(stdout)
    return ExitCode.DONE if problem is None else _refuse(unwritten(problem))


def _refuse(sentence: str) -> int:
    _, _, stderr = standard_streams(os.environ)
    stderr.write(f"vibe: {sentence}\n")
    return ExitCode.ENVIRONMENT


if __name__ == "__main__":
    sys.exit(main())
