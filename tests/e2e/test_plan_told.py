"""The commands' statements about a plan are true, the same everywhere, and made once.

Covers ``vibe.app.plan``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import EXAMPLES, VibeCommand, command_step, snapshot

WritePlan = Callable[..., str]

NO_KEY = {"fault": {"error": "access", "status": 401}}
NO_CREDIT = {"fault": {"error": "access", "status": 402}}


def edited(vibe: VibeCommand, plan_id: str, *operations: dict[str, Any]) -> None:
    ended = vibe("plan", "edit", plan_id, "--operations", "-", stdin=json.dumps(operations))
    assert ended.code == 0, ended.err


@pytest.mark.parametrize(("fault", "outcome", "code"), [(NO_KEY, "failed", 3), (NO_CREDIT, "limit", 4)])
def test_the_report_tells_what_the_run_came_to_that_a_provider_refused_to_mend(
    vibe: VibeCommand, write_plan: WritePlan, fault: dict[str, Any], outcome: str, code: int
) -> None:
    vibe.replay({"agents": {"planner": {"turns": [fault]}}})
    plan = write_plan(command_step("a", "false", on_failure="replan"), command_step("b", "true", depends_on=["a"]))

    record = vibe("plan", "run", plan, "--output", "json")
    report = vibe("plan", "report", record.document["plan_id"], "--format", "json").document

    assert (record.code, record.document["outcome"], record.document["reason"]) == (code, outcome, "provider")
    assert (report["status"], report["outcome"], report["reason"]) == ("paused", outcome, "provider")


def test_steps_that_a_revision_removed_are_told_everywhere_and_an_old_failure_by_its_name(
    vibe: VibeCommand, write_plan: WritePlan
) -> None:
    plan = write_plan(
        command_step("a", "exit 3"), command_step("b", "true", depends_on=["a"]), command_step("c", "exit 4")
    )
    plan_id = vibe("plan", "run", plan, "--output", "json").document["plan_id"]
    edited(vibe, plan_id, {"op": "remove_step", "id": "b"}, {"op": "remove_step", "id": "c"})

    record = vibe("plan", "resume", plan_id, "--output", "json").document
    status = vibe("plan", "status", plan_id, "--output", "json").document
    report = vibe("plan", "report", plan_id, "--format", "json").document

    assert [record["reason"], status["reason"], report["reason"]] == ["exit_code"] * 3
    told = [("b", "Step b", "blocked", 0, "user"), ("c", "Step c", "failed", 1, "user")]
    for document in (record, status, report):
        assert [step["id"] for step in document["steps"]] == ["a"]
        assert told == [
            (step["id"], step["title"], step["status"], step["attempts"], step["removed_by"])
            for step in document["removed_steps"]
        ]
    assert "c: Step c (failed after 1 attempt)" in vibe("plan", "status", plan_id).out
    assert "No longer part of the plan" in vibe("plan", "report", plan_id).out


def test_a_planners_model_error_is_one_sentence(vibe: VibeCommand) -> None:
    vibe.replay({"agents": {"planner": {"turns": [NO_KEY]}}})

    ended = vibe("plan", "new", "Tidy up")

    assert (ended.code, ended.out, ended.err.count("HTTP 401")) == (3, "", 1)


@pytest.mark.parametrize(
    ("fields", "code", "said"),
    [
        ({"model": "nope"}, 2, "'nope'"),
        ({"agent": "nobody"}, 2, "'nobody'"),
        ({}, 3, "MISTRAL_API_KEY"),
        ({"workspace": "worktree", "model": "nope"}, 2, "'nope'"),
    ],
)
def test_a_change_whose_step_could_not_start_is_refused_at_once(
    vibe: VibeCommand, write_plan: WritePlan, fields: dict[str, Any], code: int, said: str
) -> None:
    plan_id = vibe("plan", "run", write_plan(command_step("a", "false")), "--output", "json").document["plan_id"]
    before = snapshot(vibe.home / "plans")
    added = {"op": "add_step", "step": {"id": "x", "title": "X", "mode": "code", **fields}}

    ended = vibe("plan", "edit", plan_id, "--operations", "-", stdin=json.dumps([added]))

    assert (ended.code, ended.out) == (code, "")
    assert said in ended.err
    assert snapshot(vibe.home / "plans") == before


def test_a_change_is_not_refused_for_what_stood_in_the_way_before_it(vibe: VibeCommand, write_plan: WritePlan) -> None:
    vibe.replay({"agents": {"*": {"turns": [{"text": "done"}]}}})
    plan = write_plan(command_step("a", "false"), {"id": "x", "title": "X", "mode": "code", "model": "replay"})
    plan_id = vibe("plan", "run", plan, "--output", "json").document["plan_id"]
    (vibe.home / "config.toml").unlink()

    edited(vibe, plan_id, {"op": "update_step", "id": "a", "changes": {"command": "true"}})


def test_a_demonstrations_copy_goes_when_it_is_told_to_and_nobody_works_in_it(vibe: VibeCommand) -> None:
    def copies() -> list[Path]:
        return sorted(Path(vibe.environ["TMPDIR"]).glob("vibe-sample-*"))

    quickstart = str(EXAMPLES / "quickstart.json")
    first = vibe("plan", "run", "--approve", "edits", quickstart)
    plan_id = vibe.plan_ids()[0]
    assert f"`vibe plan clean {plan_id}`" in first.out
    second = vibe("plan", "run", "--reuse", plan_id, "--output", "json", quickstart).document["plan_id"]
    assert vibe("plan", "retry", second, "survey").code == 0
    (copy,) = copies()

    assert "is using its copy of the sample" in vibe("plan", "clean", plan_id).out
    assert vibe("plan", "clean", second).code == 2
    assert copies() == [copy]
    assert vibe("plan", "cancel", second).code == 0
    assert vibe("plan", "clean", "--all", "--dry-run").code == 0
    assert copies() == [copy]
    assert vibe("plan", "clean", plan_id, "--output", "json").document == [
        {"plan_id": plan_id, "worktrees": [], "branches": [], "sample": str(copy), "record": None, "kept_because": None}
    ]
    assert copies() == []


def test_a_model_that_is_not_there_is_refused_although_no_step_needs_one(
    vibe: VibeCommand, write_plan: WritePlan
) -> None:
    plan = write_plan(command_step("a", "true"))

    run, dry = (vibe("plan", "run", plan, "--model", "nope", *more) for more in ((), ("--dry-run",)))

    assert (run.code, run.out, dry.code) == (2, "", 2)
    assert "no model 'nope'" in run.err
    assert "no model 'nope'" in dry.out
    assert vibe.plan_ids() == []


WRONG_WORDS = {
    "a word too many": (("plan", "validate", "a.json", "b.json"), "'b.json'", "`vibe plan validate --help`"),
    "no such format": (("plan", "list", "--output", "xml"), "text, json", "`vibe plan list --help`"),
    "neither file nor plan": (("plan", "show", "nope"), "'nope' is neither a plan file", "`vibe plan list`"),
}


def test_no_document_overwrites_records_of_vibe(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan_id = vibe("plan", "run", write_plan(command_step("a", "true")), "--output", "json").document["plan_id"]
    folder = vibe.home / "plans" / plan_id
    (vibe.workdir / "link.json").symlink_to(folder / "run.json")
    session = vibe.home / "logs" / "session" / "one"
    saved = "7f1c0c4e-0000-4000-8000-000000000001"
    session.mkdir(parents=True)
    (session / "meta.json").write_text(json.dumps({"session_id": saved, "workspace": "/w", "started": 0.0}))
    (session / "messages.jsonl").write_text("")
    files = [*folder.iterdir(), *session.iterdir()]
    before = {file: file.read_bytes() for file in files if file.is_file()}

    for words in (
        ("plan", "report", plan_id, "-o", str(folder / "plan.json")),
        ("plan", "report", plan_id, "-o", "link.json"),
        ("plan", "run", "plan.json", "--report", str(folder / "state.json")),
        ("session", "export", saved, "-o", str(session / "meta.json")),
        ("-p", "hello", "--output-dir", str(session)),
        ("session", "export", saved, "-o", str(folder / "plan.json")),
    ):
        refused = vibe(*words)
        assert (refused.code, "its own records; name another place" in refused.err) == (2, True), words
    assert {file: file.read_bytes() for file in before} == before


@pytest.mark.parametrize(("words", "said", "help_at"), WRONG_WORDS.values(), ids=WRONG_WORDS.keys())
def test_a_wrong_word_is_named_with_where_to_look(
    vibe: VibeCommand, words: tuple[str, ...], said: str, help_at: str
) -> None:
    ended = vibe(*words)

    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert said in ended.err
    assert help_at in ended.err


def test_a_report_without_a_folder_is_a_wrong_word(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan_id = vibe("plan", "run", write_plan(command_step("a", "true")), "--output", "json").document["plan_id"]

    ended = vibe("plan", "report", plan_id, "-o", "nowhere/r.md")

    assert (ended.code, ended.out) == (2, "")
    assert "create it first" in ended.err


def test_a_report_that_would_be_a_folder_is_refused_before_the_plan_runs(
    vibe: VibeCommand, write_plan: WritePlan
) -> None:
    (vibe.workdir / "reports.html").mkdir()
    plan = write_plan(command_step("a", "touch ran"))

    ended = vibe("plan", "run", plan, "--report", "reports.html")

    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "vibe: --report reports.html: is a folder; name a file\n"
    assert not (vibe.workdir / "ran").exists()


def test_a_report_does_not_overwrite_its_plan(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(command_step("a", "touch ran"))
    before = (vibe.workdir / plan).read_text()

    ended = vibe("plan", "run", plan, "--report", f"../{vibe.workdir.name}/{plan}")

    assert (ended.code, ended.out) == (2, "")
    assert "is the plan itself; name another file" in ended.err
    assert (vibe.workdir / plan).read_text() == before
    assert not (vibe.workdir / "ran").exists()

    plan_id = vibe("plan", "run", plan, "--output", "json").document["plan_id"]
    for words in (("report", plan_id, "-o", plan), ("resume", plan_id, "--report", plan)):
        refused = vibe("plan", *words)
        assert (refused.code, "is the plan itself; name another file" in refused.err) == (2, True)
    assert (vibe.workdir / plan).read_text() == before

    (vibe.workdir / "old.md").write_text("")
    missing = vibe("plan", "run", "nowhere.json", "--report", "old.md")
    assert (missing.code, missing.err.endswith("nowhere.json: no such file; check the path\n")) == (2, True)


def test_a_run_with_resume_goes_on_with_what_was_begun_from_the_file_and_else_begins(
    vibe: VibeCommand, write_plan: WritePlan
) -> None:
    decision = {"id": "ok", "question": "OK?", "options": [{"id": "y", "label": "Y"}, {"id": "n", "label": "N"}]}
    steps = command_step("a", "echo a >> log"), command_step("b", "echo b >> log", depends_on=["a"], decision="ok")
    plan = write_plan(*steps, decisions=[decision])

    first, second = (vibe("plan", "run", "--resume", plan, "--output", "json").document["plan_id"] for _ in range(2))
    assert (vibe.workdir / "log").read_text() == "a\n"
    write_plan(steps[0], command_step("b", "echo c >> log", depends_on=["a"], decision="ok"), decisions=[decision])
    changed = vibe("plan", "run", "--resume", plan)
    assert vibe("plan", "edit", first, "--file", plan).code == 0
    done = vibe("plan", "run", "--resume", plan, "--decide", "ok=y", "--output", "json").document
    again = vibe("plan", "run", "--resume", plan, "--output", "json").document["plan_id"]

    assert first == second == done["plan_id"] != again
    assert (changed.code, f"vibe plan edit {first}" in changed.err) == (2, True)
    assert (done["outcome"], (vibe.workdir / "log").read_text()) == ("completed", "a\nc\na\n")
    assert vibe("plan", "run", "--resume", "-", stdin="{}").code == 2


def test_the_status_of_a_failed_plan_says_why_and_what_to_do(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan_id = vibe("plan", "run", write_plan(command_step("a", "exit 3")), "--output", "json").document["plan_id"]

    status = vibe("plan", "status", plan_id).out

    assert "failed (a command failed)" in status
    assert f"try again with: vibe plan retry {plan_id} a, then vibe plan resume {plan_id}\n" in status
    assert "failed (a command failed)" in vibe("plan", "list").out


def test_how_a_plan_stands_is_read_from_its_journal(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan_id = vibe("plan", "run", write_plan(command_step("a", "true")), "--output", "json").document["plan_id"]
    snapshot_file = vibe.home / "plans" / plan_id / "state.json"
    snapshot_file.write_text(json.dumps({**json.loads(snapshot_file.read_text()), "status": "active", "counts": {}}))

    listed = vibe("plan", "list", "--output", "json").document[0]
    status = vibe("plan", "status", plan_id, "--output", "json").document

    for document in (listed, status):
        assert (document["status"], document["interrupted"], document["counts"]) == (
            "completed",
            False,
            {"completed": 1},
        )
