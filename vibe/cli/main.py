"""The ``vibe`` command: what was asked for, who does it, and how it ended."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; ``--version`` loads nothing else."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments in (["--version"], ["-V"]):
        from vibe import __version__  # noqa: PLC0415  the only thing a version needs

        if sys.stdout is not None:  # None where it was closed
            sys.stdout.write(f"vibe {__version__}\n")
        return 0
    from vibe.cli.run import run_command_line  # noqa: PLC0415  costs what --version must not

    return run_command_line(arguments)


if __name__ == "__main__":
    sys.exit(main())
