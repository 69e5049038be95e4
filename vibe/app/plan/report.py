"""Reports of plans that were run, read from the plan's folder and written in a chosen format."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import partial

from msgspec import Struct, json

from planner.plan.loader import LoadedPlan
from planner.report.build import ReportSources
from planner.report.ci import report_junit
from planner.report.html import report_html
from planner.report.markdown import report_markdown
from planner.report.model import PlanReport
from planner.store.current_plan import current_state
from planner.store.errors import BrokenPlanError
from planner.store.folder import PlanFolder
from vibe.app.plan.usage_history import revision_agents, spending_by_attempt
from vibe.system.errors import UsageError, error_as
from vibe.system.redaction import redact


class ReportFormat(StrEnum):
    """Formats of a report. The values are file name extensions."""

    MARKDOWN = "md"
    HTML = "html"
    JSON = "json"
    JUNIT = "xml"


class ReadReport(Struct, frozen=True, kw_only=True):
    """A report and the plan it is about, as the plan is now."""

    report: PlanReport
    loaded: LoadedPlan


def read_report(folder: PlanFolder) -> ReadReport:
    """Return the report of a plan that has ended, was abandoned, or is running. Reads files.

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
        return ReadReport(report=sources.report(), loaded=loaded)


def render(read: ReadReport, form: ReportFormat, environ: Mapping[str, str]) -> str:
    """Return the report in a format, without the secrets that ``environ`` holds."""
    masked = partial(redact, environ=environ)
    match form:
        case ReportFormat.HTML:
            return masked(report_html(read.report, read.loaded.plan, read.loaded.dag))
        case ReportFormat.MARKDOWN:
            return masked(report_markdown(read.report, read.loaded.plan))
        case ReportFormat.JUNIT:
            return report_junit(read.report, masked)
        case ReportFormat.JSON:
            return json.format(json.encode(read.report), indent=2).decode() + "\n"
