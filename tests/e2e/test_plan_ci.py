"""Covers ``vibe.app.plan``."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.e2e.conftest import VIBE, VibeCommand, command_step

WritePlan = Callable[..., str]

CHECK = "echo 'not ok 1 - <it> & that'; echo $DEPLOY_TOKEN; printf '\\033[31mred'; exit 1"


def run_with_reports(vibe: VibeCommand, write_plan: WritePlan, *reports: str) -> str:
    """Run a plan with a step that fails, one that works and one that is not done, and return its standard error."""
    vibe.environ |= {"DEPLOY_TOKEN": "s3cr3t-of-mine", "GITHUB_STEP_SUMMARY": str(vibe.workdir / "summary.md")}
    plan = write_plan(
        command_step("good", "true"),
        command_step("bad", CHECK, title="Look, and: see"),
        command_step("after", "true", depends_on=["bad"]),
    )
    ended = vibe("plan", "run", plan, *(word for report in reports for word in ("--report", report)))
    assert ended.code == 1
    assert "s3cr3t-of-mine" not in ended.out + ended.err
    return ended.err


def test_a_junit_file_tells_what_failed_and_what_was_not_done(vibe: VibeCommand, write_plan: WritePlan) -> None:
    run_with_reports(vibe, write_plan, "out.xml", "out.json")

    text = (vibe.workdir / "out.xml").read_text()
    suite = ET.fromstring(text)  # noqa: S314  we wrote it
    cases = {case.attrib["name"].partition(":")[0]: case for case in suite}
    assert {name: suite.attrib[name] for name in ("tests", "failures", "skipped")} == {
        "tests": "3",
        "failures": "1",
        "skipped": "1",
    }
    failure = cases["bad"].find("failure")
    assert failure is not None
    assert "not ok 1 - <it> & that" in (failure.text or "")
    assert "not ok 1 - <it> & that" in failure.attrib["message"]
    assert cases["after"].find("skipped") is not None
    assert "s3cr3t-of-mine" not in text
    (vibe.workdir / "mine").touch()
    assert (vibe.workdir / "out.json").stat().st_mode == (vibe.workdir / "mine").stat().st_mode
    assert vibe("plan", "report", "latest", "--format", "junit").out == text


def test_a_github_workflow_is_annotated_and_its_summary_added_to(vibe: VibeCommand, write_plan: WritePlan) -> None:
    (vibe.workdir / "summary.md").write_text("# Before\n")

    err = run_with_reports(vibe, write_plan, "github")

    (line,) = [line for line in err.splitlines() if line.startswith("::error")]
    assert line.startswith("::error title=bad failed%3A Look%2C and%3A see::`echo")
    assert "%0Anot ok 1 - <it> & that" in line
    assert "\x1b" not in line
    summary = (vibe.workdir / "summary.md").read_text()
    assert summary.startswith("# Before\n")
    assert "bad" in summary
    assert "s3cr3t-of-mine" not in summary


WAITING = {"id": "ok", "question": "OK?", "options": [{"id": "y", "label": "Y"}, {"id": "n", "label": "N"}]}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"budget": {"max_seconds": 0.3}}, "failed (the budget is used up)"),
        ({"decisions": [WAITING]}, "paused (waits for a decision); continue with `vibe plan resume"),
    ],
    ids=["limit", "decision"],
)
def test_a_plan_that_ended_without_a_failed_step_is_no_success_for_the_service(
    vibe: VibeCommand, write_plan: WritePlan, fields: dict[str, Any], said: str
) -> None:
    slow = command_step("slow", "sleep 30", **({"decision": "ok"} if "decisions" in fields else {}))
    ended = vibe("plan", "run", write_plan(slow, **fields), "--report", "out.xml", "--report", "github")

    suite = ET.fromstring((vibe.workdir / "out.xml").read_text())  # noqa: S314  we wrote it
    assert ended.code in {4, 5}
    assert [suite.attrib[name] for name in ("tests", "failures", "errors", "skipped")] == ["2", "0", "1", "1"]
    (error,) = suite.findall("*/error")
    assert error.attrib["message"].startswith(said)
    assert f"::error title=plan {vibe.plan_ids()[0]}::{said}" in ended.err


def test_records_of_ended_plans_are_deleted_and_no_others(vibe: VibeCommand, write_plan: WritePlan) -> None:
    vibe("plan", "run", write_plan(command_step("s", "true")))
    vibe("plan", "run", write_plan(command_step("a", "true", decision="ok"), decisions=[WAITING]))
    ended, paused = vibe.plan_ids()

    assert "would remove the record" in vibe("plan", "clean", "--all", "--records", "--dry-run").out
    assert vibe.plan_ids() == [ended, paused]
    assert vibe("plan", "clean", paused, "--records").code == 2
    assert vibe("plan", "clean", "--all", "--records").code == 0
    assert vibe.plan_ids() == [paused]


HOSTILE = "echo '::error::mine'; echo '  ::add-mask::e'; echo '##[set-env name=A]b'; exit 1"


def test_what_a_step_prints_is_no_command_to_the_service(vibe: VibeCommand, write_plan: WritePlan) -> None:
    vibe.environ["GITHUB_ACTIONS"] = "true"
    plan = write_plan(command_step("bad", HOSTILE))

    ran = vibe.process("plan", "run", plan, "--show-output", "--report", "github")
    logs = vibe.process("plan", "logs", "latest")

    lines = [line for text in (ran.out, ran.err, logs.out) for line in text.splitlines()]
    (ours,) = [line for line in lines if line.lstrip().startswith("::")]
    assert ours.startswith("::error title=bad failed")
    assert ": :error::mine" in logs.out.splitlines()
    assert not [line for line in lines if "##[" in line and line != ours]


def test_an_answer_is_no_command_to_the_service_and_in_a_file_what_the_model_said(vibe: VibeCommand) -> None:
    said = "::error::mine\n\x1b[31mred ##[group]x"
    vibe.replay({"agents": {"main": {"turns": [{"text": said}]}}})
    vibe.environ["GITHUB_ACTIONS"] = "true"
    file = vibe.workdir / "answer"
    with file.open("wb") as out:
        subprocess.run([str(VIBE), "-p", "hi"], cwd=vibe.workdir, env=vibe.variables(), stdout=out, check=True)

    assert file.read_text() == f"{said}\n"
    assert vibe.process("-p", "hi").out == ": :error::mine\n\x1b[31mred # #[group]x\n"
    vibe.environ["GITHUB_ACTIONS"] = ""
    assert vibe.process("-p", "hi").out == f"{said}\n"
