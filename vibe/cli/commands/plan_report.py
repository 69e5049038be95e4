"""``vibe plan report``: write the report of a plan as a document."""

from __future__ import annotations

from planner.store.folder import find_plan
from vibe.app.plan.report import ReportFormat, render, write_report
from vibe.cli.environment import Arguments, CliEnvironment


def run(args: Arguments, env: CliEnvironment) -> None:
    """Print the report, or write it to a file."""
    folder = find_plan(env.home, args.plan)
    form = ReportFormat("xml" if args.format == "junit" else args.format) if args.format else None
    if args.file and args.file != "-":
        form = form or ReportFormat.of_file("-o", args.file)
        write_report(folder, env.file_to_write("-o", args.file, folder.settings().origin), form, env.environ)
    else:
        env.stdout.write(render(folder, form or ReportFormat.MARKDOWN, env.environ))
