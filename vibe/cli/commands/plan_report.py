"""``vibe plan report`` and ``--report FILE``: write the report of a plan as a document."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from planner.report.ci import github_annotations
from planner.store.folder import PlanFolder, find_plan
from vibe.app.plan.report import ReportFormat, read_report, render
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.front.ci_log import write_command
from vibe.system.errors import EnvironmentFailure, UsageError, os_error_as, remedy
from vibe.system.files import put_file
from vibe.system.redaction import redact

SUMMARY_FILE = "GITHUB_STEP_SUMMARY"
"""The environment variable that names the summary file of a GitHub workflow step."""


def _writing(path: Path, folder: PlanFolder) -> AbstractContextManager[None]:
    """Raise an OSError in the block as an EnvironmentFailure; the plan's folder still holds all of the report."""
    problem, again = f"the report can't be written to {path}", f"then `vibe plan report {folder.plan_id} -o FILE`"
    return os_error_as(
        lambda error: EnvironmentFailure(f"{problem} ({error.strerror or error}): {remedy(error)}, {again}")
    )


def run(args: Arguments, env: CliEnvironment) -> None:
    """Print the report, or write it to a file."""
    folder = find_plan(env.home, args.plan)
    form = ReportFormat("xml" if args.format == "junit" else args.format) if args.format else None
    if args.file and args.file != "-":
        form = form or format_of("-o", args.file)
        write_report(folder, env.file_to_write("-o", args.file, folder.settings().origin), form, env)
    else:
        env.stdout.write(render(read_report(folder), form or ReportFormat.MARKDOWN, env.environ))


def format_of(flag: str, name: str) -> ReportFormat:
    """Return the format of a report file, judging by its name.

    Raises:
        UsageError: the name doesn't tell the format.
    """
    try:
        return ReportFormat({"markdown": "md", "htm": "html"}.get(end := Path(name).suffix[1:].lower(), end))
    except ValueError:
        how = "give the file a name that ends in .md, .html, .json or .xml (JUnit)"
        raise UsageError(f"{flag} {name}: {how}") from None


def write_report(folder: PlanFolder, path: Path, form: ReportFormat, env: CliEnvironment) -> None:
    """Write a plan's report to a file, completely or not at all.

    Raises:
        BrokenPlanError: the plan's folder can't be read back.
        EnvironmentFailure: the file can't be written.
    """
    text = render(read_report(folder), form, env.environ)
    with _writing(path, folder):
        put_file(path, text.encode())


def report_to_github(folder: PlanFolder, env: CliEnvironment) -> None:
    """Annotate a GitHub workflow with what failed, and add the report to the step's summary.

    Raises:
        BrokenPlanError: the plan's folder can't be read back.
        EnvironmentFailure: the summary can't be written.
    """
    read = read_report(folder)
    masked = partial(redact, environ=env.environ)
    for line in github_annotations(read.report, masked):
        write_command(env.stderr, line)
    if name := env.environ.get(SUMMARY_FILE):
        with _writing(Path(name), folder), Path(name).open("a", encoding="utf-8") as file:
            file.write(render(read, ReportFormat.MARKDOWN, env.environ))
