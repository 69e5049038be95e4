"""A PlanReport for continuous integration: a JUnit file, and GitHub's annotations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from xml.etree import ElementTree as ET

from planner.report.formatting import standing
from planner.report.model import PlanReport, StepReportLine
from vibe.system.plain_text import plain

Mask = Callable[[str], str]
"""Removes secrets from a text."""

MESSAGE_LENGTH = 4_000
"""The most characters of one text."""


def report_junit(report: PlanReport, masked: Mask) -> str:
    """Return the steps as test cases of one suite.

    Failed steps are failures; tolerated failures and steps that were not done are skipped. A plan that did not complete
    for another reason, such as a limit, is an error.
    """
    suite = ET.Element("testsuite", name=_text(report.goal, masked))
    for step in report.steps:
        case = ET.SubElement(
            suite, "testcase", name=f"{step.id}: {_text(step.title, masked)}", classname=f"vibe.{step.mode}"
        )
        case.set("time", f"{step.duration_s or 0:.3f}")
        if step.status == "failed" and not step.tolerated:
            failure = ET.SubElement(case, "failure", message=_text(_why(step), masked), type=step.reason or "")
            failure.text = _text(step.printed or step.summary, masked)
        elif step.status != "completed":
            ET.SubElement(case, "skipped", message=_text(_why(step), masked))
    if why := _why_not_done(report):
        case = ET.SubElement(suite, "testcase", name=f"plan {report.plan_id}", classname="vibe.plan", time="0.000")
        ET.SubElement(case, "error", message=_text(why, masked), type=report.reason or "")
    for name, found in (("tests", "*"), ("failures", "*/failure"), ("errors", "*/error"), ("skipped", "*/skipped")):
        suite.set(name, str(len(suite.findall(found))))
    suite.set("time", f"{report.active_seconds:.3f}")
    ET.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suite, encoding="unicode") + "\n"


def github_annotations(report: PlanReport, masked: Mask) -> Iterator[str]:
    """Yield a workflow command of GitHub for each failed step, for another reason not to complete, and each warning."""
    for step in report.steps:
        if step.status == "failed":
            level = "warning" if step.tolerated else "error"
            title = _data(f"{step.id} failed: {_text(step.title, masked)}").replace(":", "%3A").replace(",", "%2C")
            printed = f"\n{step.printed}" if step.printed else ""
            yield f"::{level} title={title}::{_data(_text(_why(step) + printed, masked))}"
    if why := _why_not_done(report):
        yield f"::error title=plan {report.plan_id}::{_data(_text(why, masked))}"
    yield from (f"::warning::{_data(_text(warning, masked))}" for warning in report.warnings)


def _why_not_done(report: PlanReport) -> str:
    """Return why a plan at rest did not complete; blank if it did, or if a failed step says why."""
    failed = any(step.status == "failed" and not step.tolerated for step in report.steps)
    return "" if failed or report.outcome in {None, "completed"} else standing(report)


def _why(step: StepReportLine) -> str:
    why = step.why or step.status.replace("_", " ")
    return f"{step.status}, but the plan went on: {why}" if step.tolerated else why


def _text(text: str, masked: Mask) -> str:
    return plain(masked(text))[:MESSAGE_LENGTH]


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
