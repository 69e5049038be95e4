"""Reports of plans that were run, read from the plan's folder and written in a chosen format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from enum import StrEnum
from functools import partial
from pathlib import Path

from msgspec import json

from planner.plan.loader import LoadedPlan
from planner.report.build import ReportSources
from planner.report.ci import github_annotations, report_junit
from planner.report.html import report_html
from planner.report.markdown import report_markdown
from planner.report.model import PlanReport
from planner.store.current_plan import current_state
from planner.store.errors import BrokenPlanError
from planner.store.folder import PlanFolder
from vibe.app.plan.usage_history import revision_agents, spending_by_attempt
from vibe.system.errors import EnvironmentFailure, UsageError, error_as, os_error_as, remedy
from vibe.system.files import put_file
from vibe.system.redaction import redact

SUMMARY_FILE = "GITHUB_STEP_SUMMARY"
"""The environment variable that names the summary file of a GitHub workflow step."""


class ReportFormat(StrEnum):
    """Formats of a report. The values are file name extensions."""

    MARKDOWN = "md"
    HTML = "html"
    JSON = "json"
    JUNIT = "xml"

    @classmethod
    def of_file(cls, flag: str, name: str) -> ReportFormat:
        """Return the format of a report file, judging by its name.

        Raises:
            UsageError: the name doesn't tell the format.
        """
        try:
            return cls({"markdown": "md", "htm": "html"}.get(end := Path(name).suffix[1:].lower(), end))
        except ValueError:
            how = "give the file a name that ends in .md, .html, .json or .xml (JUnit)"
            raise UsageError(f"{flag} {name}: {how}") from None


def read_report(folder: PlanFolder) -> tuple[PlanReport, LoadedPlan]:
    """Return the report of a plan that has ended, was abandoned, or is running, and the plan as it is now. Reads files.

    Raises:
        BrokenPlanError: a file of the folder is missing, or was changed so that it can't be read back.
    """
    settings, pid = folder.settings(), folder.holder()
    content = folder.journal()
    # If the document was changed by hand, it is the folder that is broken.
    with error_as(UsageError, lambda error: BrokenPlanError(str(folder.path), " ".join(str(error).split()))):
        loaded, state = current_state(folder, settings)
        sources = ReportSources(
            plan_id=folder.plan_id,
            plan=loaded.plan,
            settings=settings,
            facts=content.facts,
            dropped=content.dropped,
            state=state,
            spent=spending_by_attempt(state, folder),
            revisions=tuple(revision_agents(folder)),
            pid=pid,
        )
        return sources.report(), loaded


def render(folder: PlanFolder, form: ReportFormat, environ: Mapping[str, str]) -> str:
    """Return the report of a plan in a format, without the secrets that ``environ`` holds; see ``read_report``."""
    report, loaded = read_report(folder)
    masked = partial(redact, environ=environ)
    match form:
        case ReportFormat.HTML:
            return masked(report_html(report, loaded))
        case ReportFormat.MARKDOWN:
            return masked(report_markdown(report, loaded))
        case ReportFormat.JUNIT:
            return report_junit(report, masked)
        case ReportFormat.JSON:
            return json.format(json.encode(report), indent=2).decode() + "\n"


def write_report(folder: PlanFolder, path: Path, form: ReportFormat, environ: Mapping[str, str]) -> None:
    """Write a plan's report to a file, completely or not at all.

    Raises:
        BrokenPlanError: the plan's folder can't be read back.
        EnvironmentFailure: the file can't be written.
    """
    text = render(folder, form, environ)
    with _writing(path, folder):
        put_file(path, text.encode())


def report_to_github(folder: PlanFolder, environ: Mapping[str, str], command: Callable[[str], None]) -> None:
    """Annotate a GitHub workflow with what failed, by its commands, and add the report to the step's summary.

    Raises:
        BrokenPlanError: the plan's folder can't be read back.
        EnvironmentFailure: the summary can't be written.
    """
    report, loaded = read_report(folder)
    masked = partial(redact, environ=environ)
    for line in github_annotations(report, masked):
        command(line)
    if name := environ.get(SUMMARY_FILE):
        with _writing(Path(name), folder), Path(name).open("a", encoding="utf-8") as file:
            file.write(masked(report_markdown(report, loaded)))


def _writing(path: Path, folder: PlanFolder) -> AbstractContextManager[None]:
    """Raise an OSError in the block as an EnvironmentFailure; the plan's folder still holds all of the report."""
    problem, again = f"the report can't be written to {path}", f"then `vibe plan report {folder.plan_id} -o FILE`"
    return os_error_as(
        lambda error: EnvironmentFailure(f"{problem} ({error.strerror or error}): {remedy(error)}, {again}")
    )
