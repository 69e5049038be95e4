"""``vibe migrate``: settings files of Mistral Vibe without what has no effect here."""

from __future__ import annotations

import argparse

from vibe.app.inspect.migrate import migrate
from vibe.cli.arguments import existing_folder
from vibe.cli.environment import CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.front.event_text import one_line

LINE_LENGTH = 1_000


def run(args: argparse.Namespace, env: CliEnvironment) -> int:
    """Clean the files, and say what was done to each."""
    done = migrate(env.host, existing_folder("--workdir", args.workdir, env.cwd), dry_run=args.dry_run)
    for file in done:
        kept = f" (the old file is {file.backup})" if file.backup is not None else ""
        env.stdout.write(one_line(f"{file.file}{kept}:", LINE_LENGTH) + "\n")
        for change in file.changes:
            env.stdout.write(f"  {one_line(change, LINE_LENGTH)}\n")
    if not done:
        env.stdout.write("nothing to migrate\n")
    elif args.dry_run:
        env.stdout.write("Nothing was changed.\n")
    return ExitCode.DONE
