"""``vibe migrate``: settings files of Mistral Vibe without what has no effect here."""

from __future__ import annotations

from vibe.app.inspect.migrate import migrate
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.front.event_text import one_line

LINE_LENGTH = 1_000


def run(args: Arguments, env: CliEnvironment) -> None:
    """Clean the files, and say what was done to each."""
    done = migrate(env.host, args.workdir, dry_run=args.dry_run)
    for file in done:
        kept = f" (the old file is {file.backup})" if file.backup is not None else ""
        env.stdout.write(one_line(f"{file.file}{kept}:", LINE_LENGTH) + "\n")
        for change in file.changes:
            env.stdout.write(f"  {one_line(change, LINE_LENGTH)}\n")
    if not done:
        env.stdout.write("nothing to migrate\n")
    elif args.dry_run:
        env.stdout.write("Nothing was changed.\n")
