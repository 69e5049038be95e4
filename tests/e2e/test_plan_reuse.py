"""Results of one plan reused by another, runs of some steps only, and the reports of both.

Covers ``planner.report``, ``planner.reuse``.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import VIBE, Finished, VibeCommand, command_step

WritePlan = Callable[..., str]


def chain(**commands: str) -> list[dict[str, object]]:
    """Return steps a, b and c, one after the other, each of which writes down that it ran."""
    return [
        command_step("a", commands.get("a", "echo a >> log")),
        command_step("b", commands.get("b", "echo b >> log"), depends_on=["a"]),
        command_step("c", commands.get("c", "echo c >> log"), depends_on=["b"]),
    ]


def ran(vibe: VibeCommand) -> str:
    return "".join((vibe.workdir / "log").read_text().split())


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgSign=false")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def reasons(ended: Finished) -> dict[str, str | None]:
    return {step["id"]: step.get("reason") for step in ended.document["steps"]}


def test_unchanged_steps_are_taken_over_and_the_rest_runs(vibe: VibeCommand, write_plan: WritePlan) -> None:
    assert vibe("plan", "run", write_plan(*chain(b="echo b >> log; exit 1"))).code == 1
    [first] = vibe.plan_ids()

    edited = write_plan(*chain())
    ended = vibe("plan", "run", "--reuse", first, "--output", "json", edited)

    assert (ended.code, ended.document["outcome"]) == (0, "completed")
    assert ran(vibe) == "abbc"
    assert reasons(ended) == {"a": "reused", "b": None, "c": None}
    assert ended.document["steps"][0]["attempts"] == 0
    second = ended.document["plan_id"]
    shown = vibe("plan", "show", second).out
    assert f"reused from plan {first}" in shown
    report = json.loads(vibe("plan", "report", second, "--format", "json").out)
    assert (report["reused_from"], report["steps"][0]["reused_from"]) == (first, first)

    again = vibe("plan", "run", "--reuse", second, edited)
    assert " starts: " in again.out.splitlines()[0]
    assert f"3 of 3 steps reused from plan {second}; nothing left to run" in again.out
    assert ran(vibe) == "abbc"


def test_a_plan_taken_over_in_part_can_be_resumed(vibe: VibeCommand, write_plan: WritePlan) -> None:
    vibe("plan", "run", write_plan(*chain(c="exit 1")))
    [first] = vibe.plan_ids()
    asked = {"id": "go", "question": "Go on?", "options": [{"id": "yes", "label": "Yes"}, {"id": "no", "label": "No"}]}
    steps = [*chain()[:2], command_step("c", "echo c >> log", depends_on=["b"], decision="go")]
    paused = vibe("plan", "run", "--reuse", first, "--output", "json", write_plan(*steps, decisions=[asked]))

    assert (paused.code, reasons(paused)["a"]) == (5, "reused")
    resumed = vibe("plan", "resume", paused.document["plan_id"], "--decide", "go=yes", "--output", "json")
    assert (resumed.code, ran(vibe)) == (0, "abc")
    assert reasons(resumed) == {"a": "reused", "b": "reused", "c": None}


def test_steps_are_chosen_by_their_tags(vibe: VibeCommand, write_plan: WritePlan) -> None:
    first, second, third = chain()
    plan = write_plan(first, second | {"tags": ["quick", "unit"]}, third, command_step("d", "true", tags=["quick"]))

    ended = vibe("plan", "run", "--only", "tag:unit", plan, "--output", "json")
    dry = vibe("plan", "run", "--dry-run", "--only", "tag:quick,a", plan)
    unknown = vibe("plan", "run", "--only", "tag:quik", plan)
    tagless = vibe("plan", "run", "--only", "tag:unit", write_plan(*chain()))

    assert reasons(ended) == {"a": None, "b": None, "c": "only", "d": "only"}
    assert dry.code == 0
    assert (unknown.code, unknown.err) == (2, "vibe: no step of the plan has the tag 'quik'; did you mean 'quick'?\n")
    assert "its steps have no tags" in tagless.err
    shown = vibe("plan", "show", ended.document["plan_id"]).out
    assert [line for line in shown.splitlines() if "tags" in line] == ["    tags: quick, unit", "    tags: quick"]


def test_a_tag_is_a_short_name(vibe: VibeCommand, write_plan: WritePlan) -> None:
    refused = vibe("plan", "validate", write_plan(chain()[0] | {"tags": ["Two words"]}))

    assert refused.code == 2
    assert "tags[0]" in refused.err


def test_only_some_steps_run_and_the_others_are_skipped_by_name(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(*chain(), command_step("d", "echo d >> log"))

    ended = vibe("plan", "run", "--only", "b", plan, "--output", "json")

    assert (ended.code, ran(vibe)) == (0, "ab")
    assert reasons(ended) == {"a": None, "b": None, "c": "only", "d": "only"}
    assert [step["status"] for step in ended.document["steps"]] == ["completed", "completed", "skipped", "skipped"]
    assert "to run: a, b; left out: c, d" in vibe("plan", "run", "--only", "b", plan).out
    reused = vibe("plan", "run", "--only", "b,d", "--reuse", ended.document["plan_id"], plan, "--output", "json")
    assert reasons(reused) == {"a": "reused", "b": None, "c": "only", "d": None}


def test_a_step_that_does_not_exist_starts_nothing(vibe: VibeCommand, write_plan: WritePlan) -> None:
    ended = vibe("plan", "run", "--only", "bb", write_plan(*chain()))

    assert (ended.code, ended.out, vibe.plan_ids()) == (2, "", [])
    assert "no step 'bb'; did you mean 'b'?" in ended.err


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")
def test_a_commit_in_between_keeps_results_from_being_taken_over_and_is_named(
    vibe: VibeCommand, write_plan: WritePlan
) -> None:
    git(vibe.workdir, "init", "-q")
    git(vibe.workdir, "commit", "-q", "--allow-empty", "-m", "first")
    plan = write_plan(command_step("a", "echo a >> log"))
    vibe("plan", "run", plan)
    [first] = vibe.plan_ids()
    assert "1 of 1 step reused" in vibe("plan", "run", "--reuse", first, plan).out
    assert vibe("plan", "diff", first, plan).out == "= a\n1 unchanged, 0 changed, 0 added, 0 removed\n"

    (vibe.workdir / "other").touch()
    git(vibe.workdir, "add", "other")
    git(vibe.workdir, "commit", "-q", "-m", "second")
    ended = vibe("plan", "run", "--reuse", first, plan, "--output", "json")

    assert (ended.code, ran(vibe)) == (0, "aa")
    [warning] = ended.document["warnings"]
    assert f"nothing reused from plan {first}: the repository is at commit" in warning
    assert warning.endswith("since then files changed that none of its steps wrote: other")
    assert "~ a: different base commit" in vibe("plan", "diff", first, plan).out


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")
@pytest.mark.parametrize(("writes", "taken"), [(["out/**", "log"], True), (["**"], False)], ids=["named", "anything"])
def test_who_commits_the_work_of_a_plan_and_the_plan_can_still_take_it_over(
    vibe: VibeCommand, write_plan: WritePlan, writes: list[str], *, taken: bool
) -> None:
    project = vibe.workdir / "project"  # a folder below the repository's top
    project.mkdir()
    git(vibe.workdir, "init", "-q")
    git(vibe.workdir, "commit", "-q", "--allow-empty", "-m", "first")
    made = command_step("a", "mkdir -p out; echo a > out/a; echo a >> log", writes=writes)
    plan = write_plan(made, command_step("b", "echo b >> log; exit 1", writes=["log"], depends_on=["a"]))
    vibe("plan", "run", plan, "--workdir", str(project))
    git(vibe.workdir, "add", "-A")
    git(vibe.workdir, "commit", "-q", "-m", "the plan and its work")
    [first] = vibe.plan_ids()
    assert ("= a" in vibe("plan", "diff", first, plan).out) is taken

    vibe("plan", "run", "--reuse", first, plan, "--workdir", str(project))

    assert "".join((project / "log").read_text().split()) == ("abb" if taken else "abab")


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")
def test_what_a_plan_itself_committed_does_not_stand_in_the_way(vibe: VibeCommand, write_plan: WritePlan) -> None:
    git(vibe.workdir, "init", "-q")
    git(vibe.workdir, "commit", "-q", "--allow-empty", "-m", "first")
    commit = "git -c user.name=t -c user.email=t@example.org commit -q --allow-empty -m mine; echo a >> log"
    plan = write_plan(command_step("a", commit))
    vibe("plan", "run", plan)

    ended = vibe("plan", "run", "--reuse", vibe.plan_ids()[0], plan)

    assert "1 of 1 step reused" in ended.out
    assert ran(vibe) == "a"


def test_results_are_not_taken_over_into_another_folder(
    vibe: VibeCommand, write_plan: WritePlan, tmp_path: Path
) -> None:
    plan = write_plan(*chain())
    vibe("plan", "run", plan)
    (tmp_path / "elsewhere").mkdir()

    ended = vibe("plan", "run", "--reuse", vibe.plan_ids()[0], "--workdir", str(tmp_path / "elsewhere"), plan)

    assert ended.code == 2
    assert f"that plan ran in {vibe.workdir}" in ended.err


def test_two_documents_are_compared_step_by_step(vibe: VibeCommand, write_plan: WritePlan) -> None:
    write_plan(*chain())
    (vibe.workdir / "plan.json").rename(vibe.workdir / "old.json")
    write_plan(*chain(b="true")[:2], command_step("d", "true"), defaults={"retries": 2})

    ended = vibe("plan", "diff", "old.json", "plan.json")

    assert ended.out.splitlines() == [
        "= a (only limits differ: retries)",
        "~ b: command differs",
        "+ d",
        "- c",
        "1 unchanged, 1 changed, 1 added, 1 removed",
    ]
    document = vibe("plan", "diff", "old.json", "plan.json", "--output", "json").document
    assert document["changed"] == [
        {"id": "b", "fields": ["command"], "dependencies": [], "decisions": [], "base_commit": False}
    ]


def test_a_run_leaves_a_report_whatever_ended_it(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(*chain(b="echo '<script>alert(1)</script>'; exit 3"))
    ended = vibe("plan", "run", "--report", "out.html", plan)

    assert ended.code == 1
    page = (vibe.workdir / "out.html").read_text()
    assert "exited with 3" in page
    assert "<script" not in page
    [plan_id] = vibe.plan_ids()
    assert vibe("plan", "report", plan_id, "-o", "out.md").code == 0
    assert "exited with 3" in (vibe.workdir / "out.md").read_text()


def test_a_report_that_can_not_be_written_is_one_sentence(vibe: VibeCommand, write_plan: WritePlan) -> None:
    refused = vibe("plan", "run", "--report", "out.pdf", write_plan(*chain()))
    assert (refused.code, vibe.plan_ids()) == (2, [])
    assert (
        refused.err == "vibe: --report out.pdf: give the file a name that ends in .md, .html, .json or .xml (JUnit)\n"
    )

    refused = vibe("plan", "run", "--report", "none/out.md", write_plan(*chain()))
    assert (refused.code, vibe.plan_ids()) == (2, [])
    assert "no folder" in refused.err

    (vibe.workdir / "out").mkdir()
    lost = vibe("plan", "run", "--report", "out/out.md", write_plan(*chain(c="rmdir out")))
    assert lost.code == 3
    assert "the report can't be written to" in lost.err
    assert "done: " in lost.out


@pytest.mark.parametrize("broken", ["plan.json", "run.json", "journal.jsonl"])
@pytest.mark.parametrize("how", ["gone", "garbled"])
def test_the_report_of_a_broken_folder_is_one_sentence(
    vibe: VibeCommand, write_plan: WritePlan, broken: str, how: str
) -> None:
    vibe("plan", "run", write_plan(*chain()))
    [plan_id] = vibe.plan_ids()
    path = vibe.home / "plans" / plan_id / broken
    if how == "gone":
        path.unlink()
    else:
        path.write_text('{"version": 1, "steps": [{"id": "A"}]}\n{}\n')

    ended = vibe("plan", "report", plan_id, "--format", "html")

    assert (ended.code, ended.out) == (3, "")
    assert ended.err.startswith("vibe: ")
    assert ended.err.count("\n") == 1


def test_a_file_that_is_gone_though_its_step_is_taken_over_is_named(vibe: VibeCommand, write_plan: WritePlan) -> None:
    call = {"name": "write_file", "arguments": {"path": "made.txt", "content": "x"}}
    vibe.replay({"agents": {"w": {"turns": [{"tool_calls": [call]}, {"text": "done"}]}}})
    plan = write_plan({"id": "w", "title": "Write", "mode": "code"})
    assert vibe("plan", "run", "--approve", "edits", plan).code == 0
    (vibe.workdir / "made.txt").unlink()

    ended = vibe("plan", "run", "--reuse", vibe.plan_ids()[0], plan)

    assert "missing although a reused step changed it: made.txt" in ended.out


def test_a_report_needs_no_more_than_the_journal(vibe: VibeCommand, write_plan: WritePlan) -> None:
    vibe("plan", "run", write_plan(*chain()))
    [plan_id] = vibe.plan_ids()
    shutil.rmtree(vibe.home / "plans" / plan_id / "steps")
    (vibe.home / "plans" / plan_id / "state.json").write_text("garbled")

    report = json.loads(vibe("plan", "report", plan_id, "--format", "json").out)

    assert [step["status"] for step in report["steps"]] == ["completed"] * 3


@pytest.mark.parametrize(
    ("since", "warned"),
    [
        ("true", None),
        ("rm -r out", "missing although a reused step is to write it: out/*.txt"),
        ("rm out/a.txt", "missing although a reused step is to write it: out/*.txt"),
        ("echo 2 > src.txt", "edited since that plan ended: src.txt"),
        ("echo 2 > new.txt", "edited since that plan ended: new.txt"),
        ("echo 2 > out/b.txt", None),
        ("export LEVEL=2", "reused steps name variables that have another value now: LEVEL"),
        ("unset LEVEL", "reused steps name variables that have another value now: LEVEL"),
    ],
)
def test_what_no_content_key_covers_is_warned_of(
    vibe: VibeCommand, write_plan: WritePlan, since: str, warned: str | None
) -> None:
    (vibe.workdir / ".gitignore").write_text("out/\n/home/\n")
    (vibe.workdir / "src.txt").write_text("1\n")
    git(vibe.workdir, "init", "-q")
    git(vibe.workdir, "add", "-A")
    git(vibe.workdir, "commit", "-qm", "first")
    made = command_step("a", "mkdir -p out; cp src.txt out/a.txt; echo ${LEVEL}", writes=["out/*.txt"])
    plan = write_plan(made, command_step("b", "exit $FAILS", depends_on=["a"]))
    vibe.environ |= {"LEVEL": "1", "FAILS": "1"}
    assert vibe("plan", "run", plan).code == 1
    [first] = vibe.plan_ids()
    line = f"{since}; export FAILS=0; exec {VIBE} plan run --output json --reuse {first} {plan}"

    ended = subprocess.run(
        ["bash", "-c", line], cwd=vibe.workdir, env=vibe.variables(), capture_output=True, text=True, check=True
    )

    record = json.loads(ended.stdout)
    assert (record["steps"][0]["reason"], record["warnings"]) == ("reused", [warned] if warned else [])
