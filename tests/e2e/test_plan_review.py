"""``vibe plan review``, and comments that go to a step's next attempt.

Covers ``vibe.app.plan``, ``planner.state``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import VibeCommand, command_step
from tests.fakes.tmux import Tmux
from tests.fakes.waiting import until
from tests.integration.core.session.repository import content, repository

CART = "def total(items):\n    return sum(items)\n\n\ndef count(items):\n    return len(items)\n"
ROUNDS = "sed -i 's/return sum(items)/return round(sum(items), 2)/' shop/cart.py"


def shell(step_id: str, command: str, **fields: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a step whose agent runs a command, and its model's script for each attempt."""
    turns = [{"tool_calls": [{"name": "bash", "arguments": {"command": command}}]}, {"text": f"{step_id} done"}]
    return {"id": step_id, "title": f"Step {step_id}", "mode": "code", **fields}, {"turns": turns}


def run(vibe: VibeCommand, write_plan: Any, *steps: tuple[dict[str, Any], dict[str, Any]]) -> str:
    vibe.workdir.rmdir()
    repository(vibe.workdir, {"shop/cart.py": CART, "notes.txt": "old\n"})
    vibe.replay({"agents": {step["id"]: script for step, script in steps if script}})
    plan = write_plan(*(step for step, _ in steps))
    ended = vibe("plan", "run", plan, "--auto-approve", "--allow-dirty", "--output", "json")
    assert ended.code == 0, ended.err + ended.out
    return ended.document["plan_id"]


def prompts(vibe: VibeCommand, plan_id: str, step_id: str, attempt: int) -> list[str]:
    """Return the user messages to an agent in an attempt, without the first prompt."""
    name = "messages.jsonl" if attempt == 1 else f"messages.{attempt}.jsonl"
    lines = (vibe.home / "plans" / plan_id / "steps" / step_id / name).read_text().splitlines()
    said = [json.loads(line) for line in lines]
    return [message["content"] for message in said if message.get("role") == "user"][1:]


def resume(vibe: VibeCommand, plan_id: str) -> None:
    resumed = vibe("plan", "resume", plan_id, "--auto-approve")
    assert resumed.code == 0, resumed.err + resumed.out


@pytest.mark.parametrize("workspace", ["shared", "worktree"])
def test_what_each_step_changed_is_listed_and_shown(vibe: VibeCommand, write_plan: Any, workspace: str) -> None:
    plan_id = run(
        vibe,
        write_plan,
        shell("totals", ROUNDS, workspace=workspace),
        shell("export", "printf 'a\\nb\\n' > shop/export.py; rm notes.txt", depends_on=["totals"], workspace=workspace),
    )

    listed = vibe("plan", "review", plan_id)
    document = vibe("plan", "review", plan_id, "--output", "json").document
    shown = vibe("plan", "review", plan_id, "shop/cart.py")

    assert listed.out.splitlines()[1:] == [
        "totals",
        "  shop/cart.py    +1 -1",
        "export",
        "  notes.txt       +0 -1",
        "  shop/export.py  +2 -0",
        "3 files, +3 -2",
    ]
    assert [(one["step"], one["attempt"], one["file"], one["status"]) for one in document["changes"]] == [
        ("totals", 1, "shop/cart.py", "open"),
        ("export", 1, "notes.txt", "open"),
        ("export", 1, "shop/export.py", "open"),
    ]
    assert "-    return sum(items)\n+    return round(sum(items), 2)\n" in shown.out
    assert "export.py" not in shown.out
    assert "+++ shop/export.py" in vibe("plan", "review", plan_id, "--diff").out


@pytest.mark.parametrize("workspace", ["shared", "worktree"])
def test_a_rejected_file_is_as_it_was_before_its_step(vibe: VibeCommand, write_plan: Any, workspace: str) -> None:
    steps = shell("totals", f"{ROUNDS}; echo new > made.txt; rm notes.txt", workspace=workspace)
    plan_id = run(vibe, write_plan, steps, (command_step("check", "true", depends_on=["totals"]), {}))

    half = vibe("plan", "review", plan_id, "--reject", "shop/cart.py", "made.txt")
    assert (half.code, "repeat --reject for a file" in half.err) == (2, True), "made.txt would be kept without a word"

    rejected = vibe(
        "plan", "review", plan_id, "--reject", "shop/cart.py", "--reject", "made.txt", "--reject", "notes.txt"
    )

    assert rejected.code == 0, rejected.err
    assert "shop/cart.py is as it was before step 'totals'" in rejected.out
    files = content(vibe.workdir)
    assert (files["shop/cart.py"], files["notes.txt"], "made.txt" in files) == (CART, "old\n", False)
    assert vibe("plan", "review", plan_id).out.count("rejected") == 3
    again = vibe("plan", "review", plan_id, "--reject", "made.txt")
    assert (again.code, "already" in again.err) == (2, True)


def test_a_file_that_others_changed_since_is_given_back_only_by_force(vibe: VibeCommand, write_plan: Any) -> None:
    plan_id = run(
        vibe,
        write_plan,
        shell("totals", ROUNDS),
        shell("more", "echo '# more' >> shop/cart.py", depends_on=["totals"]),
    )
    file = vibe.workdir / "shop" / "cart.py"

    by_step = vibe("plan", "review", plan_id, "--reject", "shop/cart.py", "--step", "totals")
    assert (by_step.code, by_step.out) == (2, "")
    assert "was changed by step 'more' since step 'totals' changed it: nothing was given back" in by_step.err

    file.write_text("mine\n")
    by_me = vibe("plan", "review", plan_id, "--reject", "shop/cart.py")
    assert (by_me.code, file.read_text()) == (2, "mine\n")
    assert "was changed by someone else since step 'more'" in by_me.err

    forced = vibe("plan", "review", plan_id, "--reject", "shop/cart.py", "--force", "--step", "totals")
    assert (forced.code, file.read_text()) == (0, CART)
    kept = forced.out.split("is kept as ")[1].splitlines()[0]
    assert Path(kept).read_text() == "mine\n"


@pytest.mark.parametrize("workspace", ["shared", "worktree"])
def test_a_file_in_another_form_than_git_keeps_is_told_and_given_back_as_it_was(
    vibe: VibeCommand, write_plan: Any, workspace: str
) -> None:
    vibe.workdir.rmdir()
    files = {"run.bat": "one\ntwo\n", "place": "a file\n", ".gitattributes": "*.bat eol=crlf\n"}
    repository(vibe.workdir, files)
    (vibe.workdir / "run.bat").write_bytes(b"one\r\ntwo\r\n")
    step, script = shell(
        "kinds",
        "printf 'one\\r\\nTWO\\r\\n' > run.bat; rm place; mkdir place; echo in > place/it",
        workspace=workspace,
    )
    vibe.replay({"agents": {"kinds": script}})
    ended = vibe("plan", "run", write_plan(step), "--auto-approve", "--allow-dirty", "--output", "json")
    plan_id = ended.document["plan_id"]

    def standings() -> dict[str, str]:
        found = vibe("plan", "review", plan_id, "--output", "json").document["changes"]
        return {change["file"]: change["status"] for change in found}

    changed = ["run.bat", "place", "place/it"]
    assert standings() == dict.fromkeys(changed, "open")
    assert vibe("plan", "review", plan_id, "--reject", "place").code != 0
    for file in ("run.bat", "place/it", "place"):
        rejected = vibe("plan", "review", plan_id, "--reject", file)
        assert rejected.code == 0, rejected.err
    assert standings() == dict.fromkeys(changed, "rejected")
    assert (vibe.workdir / "run.bat").read_bytes() == b"one\r\ntwo\r\n"
    assert (vibe.workdir / "place").read_text() == "a file\n"


def test_what_a_step_left_that_a_revision_removed_is_listed_and_given_back(vibe: VibeCommand, write_plan: Any) -> None:
    revision = {
        "reason": "another way",
        "operations": [
            {"op": "add_step", "step": {"id": "good", "title": "Do it", "mode": "docs", "verify": ["test -e ok"]}},
            {"op": "remove_step", "id": "bad"},
        ],
    }
    vibe.workdir.rmdir()
    repository(vibe.workdir, {"notes.txt": "old\n"})
    bad, script = shell("bad", "echo junk > junk.txt; rm notes.txt", verify=["test -e ok"], max_repairs=0)
    write = {"name": "write_file", "arguments": {"path": "ok", "content": "x\n"}}
    vibe.replay({
        "agents": {
            "bad": script,
            "planner": {"turns": [{"tool_calls": [{"name": "hand_in_revision", "arguments": {"value": revision}}]}]},
            "good": {"turns": [{"tool_calls": [write]}, {"text": "done"}]},
        }
    })
    plan = write_plan({**bad, "on_failure": "replan"})
    ended = vibe("plan", "run", plan, "--auto-approve", "--allow-dirty", "--output", "json")
    assert ended.code == 0, ended.err + ended.out
    plan_id = ended.document["plan_id"]

    found = vibe("plan", "review", plan_id, "--output", "json").document["changes"]
    assert {(change["step"], change["file"]) for change in found} == {
        ("bad", "junk.txt"),
        ("bad", "notes.txt"),
        ("good", "ok"),
    }
    rejected = vibe("plan", "review", plan_id, "--reject", "junk.txt", "--reject", "notes.txt")
    assert rejected.code == 0, rejected.err
    assert not (vibe.workdir / "junk.txt").exists()
    assert (vibe.workdir / "notes.txt").read_text() == "old\n"


@pytest.mark.parametrize("workspace", ["shared", "worktree"])
def test_comments_go_together_to_the_steps_next_attempt_and_its_checks_run(
    vibe: VibeCommand, write_plan: Any, workspace: str
) -> None:
    fixes = shell(
        "totals", f"{ROUNDS}; echo x >> tries.txt", verify=["wc -l < tries.txt >> checked.log"], workspace=workspace
    )
    plan_id = run(vibe, write_plan, fixes)

    sent = vibe(
        "plan", "review", plan_id,
        "--comment", "shop/cart.py:2", "round half up: money",
        "--comment", "shop/cart.py:5-6", "leave this alone",
    )  # fmt: skip
    assert sent.code == 0, sent.err
    assert "step 'totals' runs again with 2 comments\n" in sent.out
    assert f"continue with: vibe plan resume {plan_id}" in sent.out
    resume(vibe, plan_id)

    [told] = prompts(vibe, plan_id, "totals", 2)
    assert "shop/cart.py, line 2:\n> " in told
    assert "return round(sum(items), 2)\nround half up: money" in told
    assert "lines 5 to 6:\n> def count(items):\n>     return len(items)\nleave this alone" in told
    assert (vibe.workdir / "checked.log").read_text().split() == ["1", "2"]
    facts = [json.loads(line) for line in (vibe.home / "plans" / plan_id / "journal.jsonl").read_text().splitlines()]
    [fact] = [fact for fact in facts if fact["type"] == "plan.told"]
    assert [(one["file"], one["first"], one["last"]) for one in fact["comments"]] == [
        ("shop/cart.py", 2, 2),
        ("shop/cart.py", 5, 6),
    ]
    changes = vibe("plan", "review", plan_id, "--output", "json").document["changes"]
    assert ("tries.txt", 2, 2) in [(one["file"], one["attempt"], one["added"]) for one in changes]


def test_a_comment_on_lines_that_changed_since_is_marked_and_sent(vibe: VibeCommand, write_plan: Any) -> None:
    plan_id = run(vibe, write_plan, shell("totals", ROUNDS))
    file = vibe.workdir / "shop" / "cart.py"
    file.write_text(file.read_text().replace("round(sum(items), 2)", "0"))

    sent = vibe("plan", "review", plan_id, "--comment", "shop/cart.py:2", "why?", "--comment", "shop/cart.py:6", "good")

    assert "step 'totals' runs again with 2 comments, stale: shop/cart.py:2\n" in sent.out
    resume(vibe, plan_id)
    [told] = prompts(vibe, plan_id, "totals", 2)
    assert "shop/cart.py, line 2 (changed since):" in told


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--comment", "shop/cart.py:99", "x"], "shop/cart.py has no line 99"),
        (["--comment", "shop/cart.py", "x"], "FILE:LINE"),
        (["--comment", "notes.txt:1", "x"], "no step changed 'notes.txt'; changed: shop/cart.py"),
        (["--reject", "notes.txt"], "no step changed 'notes.txt'"),
        (["--reject", "shop/cart.py", "--step", "nope"], "step 'nope' did not change 'shop/cart.py'"),
        (["nope.txt"], "no step changed 'nope.txt'"),
    ],
)
def test_what_is_not_there_is_refused(vibe: VibeCommand, write_plan: Any, words: list[str], said: str) -> None:
    plan_id = run(vibe, write_plan, shell("totals", ROUNDS))

    refused = vibe("plan", "review", plan_id, *words)

    assert (refused.code, refused.out) == (2, "")
    assert said in refused.err
    assert (vibe.workdir / "shop" / "cart.py").read_text() != CART


# --- words for a step ---------------------------------------------------------------------------------------------


def test_words_of_a_retry_reach_the_new_attempt_as_the_users(vibe: VibeCommand, write_plan: Any) -> None:
    plan_id = run(vibe, write_plan, shell("totals", ROUNDS), (command_step("check", "true"), {}))

    told = vibe("plan", "retry", plan_id, "totals", "--message", "The test expects a share")
    no_agent = vibe("plan", "retry", plan_id, "check", "--message", "Hurry")
    resume(vibe, plan_id)

    assert told.code == 0
    assert (no_agent.code, "it has no agent" in no_agent.err) == (2, True)
    assert prompts(vibe, plan_id, "totals", 2) == ["The test expects a share"]


@pytest.mark.parametrize("executor", ["local", "process"])
def test_a_step_that_has_not_begun_is_told_when_it_does_even_if_the_run_is_killed(
    vibe: VibeCommand, write_plan: Any, executor: str
) -> None:
    step, script = shell("later", "true", depends_on=["waits"])
    vibe.replay({"agents": {"later": script}})
    waits = command_step("waits", "touch began; while [ ! -e go ]; do sleep 0.05; done")
    vibe_run = vibe.start("plan", "run", write_plan(waits, step), "--auto-approve", "--executor", executor)
    until((vibe.workdir / "began").exists, seconds=30)
    [plan_id] = vibe.plan_ids()

    told = vibe("plan", "steer", plan_id, "later", "Use", "cents")
    vibe_run.kill()
    vibe_run.wait()
    too = vibe("plan", "steer", plan_id, "later", "And round")
    (vibe.workdir / "go").touch()
    resume(vibe, plan_id)

    assert (told.code, told.out) == (0, f"plan {plan_id}: the agent of step 'later' reads it before its next turn\n")
    assert too.code == 0
    assert prompts(vibe, plan_id, "later", 1) == ["Use cents", "And round"]
    done = vibe("plan", "steer", plan_id, "later", "More")
    assert (done.code, "it is completed; `vibe plan retry` takes a --message" in done.err) == (2, True)


@pytest.mark.parametrize("executor", ["local", "process"])
def test_a_step_whose_checks_run_is_told_before_it_completes(vibe: VibeCommand, write_plan: Any, executor: str) -> None:
    step, script = shell("totals", "true", verify=["echo x >> checks; while [ ! -e go ]; do sleep 0.05; done"])
    script["turns"].append({"text": "done so"})
    vibe.replay({"agents": {"totals": script}})
    vibe_run = vibe.start("plan", "run", write_plan(step), "--auto-approve", "--executor", executor)
    until((vibe.workdir / "checks").exists, seconds=30)
    [plan_id] = vibe.plan_ids()

    told = vibe("plan", "steer", plan_id, "totals", "Use cents")
    (vibe.workdir / "go").touch()

    assert (told.code, vibe_run.wait()) == (0, 0)
    assert prompts(vibe, plan_id, "totals", 1) == ["Use cents"]
    assert (vibe.workdir / "checks").read_text() == "x\nx\n"


def test_words_in_an_attempt_that_was_killed_are_read_once_by_the_next_process(
    vibe: VibeCommand, write_plan: Any
) -> None:
    step, script = shell("totals", "touch began; while [ ! -e go ]; do sleep 0.05; done")
    vibe.replay({"agents": {"totals": script}})
    vibe_run = vibe.start("plan", "run", write_plan(step), "--auto-approve")
    until((vibe.workdir / "began").exists, seconds=30)
    [plan_id] = vibe.plan_ids()
    assert vibe("plan", "steer", plan_id, "totals", "Use cents").code == 0
    vibe_run.kill()
    vibe_run.wait()
    (vibe.workdir / "go").touch()

    resume(vibe, plan_id)

    assert prompts(vibe, plan_id, "totals", 1).count("Use cents") == 1


# --- on the screen ------------------------------------------------------------------------------------------------


def reject_made_file(vibe: VibeCommand, write_plan: Any, tmux: Tmux) -> str:
    """Run a plan, reject the file of its second step in the review on the screen, and return the plan's id."""
    plan_id = run(
        vibe, write_plan, shell("totals", ROUNDS), shell("export", "echo x > made.txt", depends_on=["totals"])
    )
    vibe.at(tmux)
    tmux.wait_for("Ask anything")
    tmux.type("/review")
    tmux.wait_for("made.txt  by export")
    tmux.press("Down", "x")
    tmux.wait_for("give back 1 file")
    return plan_id


def test_files_are_given_back_and_comments_sent_from_the_screen(vibe: VibeCommand, write_plan: Any, tmux: Tmux) -> None:
    plan_id = reject_made_file(vibe, write_plan, tmux)
    tmux.press("Up", "j", "j", "c")
    tmux.wait_for("your comment on this line")
    tmux.type("round half up")
    tmux.wait_for("send 1 comment, give back 1 file")
    tmux.press("Escape")
    tmux.wait_for("Ask anything")
    tmux.type("/review")  # the draft is kept
    tmux.wait_for("you  round half up")
    tmux.press("Enter")
    tmux.wait_for("made.txt is as it was before step 'export'")
    tmux.wait_for("step 'totals' runs again with 1 comment")

    until((vibe.home / "plans" / plan_id / "steps" / "totals" / "messages.2.jsonl").exists, seconds=60)
    until(lambda: prompts(vibe, plan_id, "totals", 2), seconds=60)
    assert "round half up" in prompts(vibe, plan_id, "totals", 2)[0]
    assert not (vibe.workdir / "made.txt").exists()


def test_what_was_given_back_elsewhere_meanwhile_does_not_keep_other_files_from_it(
    vibe: VibeCommand, write_plan: Any, tmux: Tmux
) -> None:
    plan_id = reject_made_file(vibe, write_plan, tmux)
    tmux.press("Up", "x")
    tmux.wait_for("give back 2 files")
    assert vibe("plan", "review", plan_id, "--reject", "made.txt").code == 0
    tmux.press("Enter")
    tmux.wait_for("shop/cart.py is as it was before step 'totals'")
    tmux.type("/review")
    tmux.wait_for("2 rejected")
    assert not any("give back" in line for line in tmux.screen())

    assert content(vibe.workdir)["shop/cart.py"] == CART


def test_a_comment_kept_for_later_follows_its_file_to_the_next_attempt(
    vibe: VibeCommand, write_plan: Any, tmux: Tmux
) -> None:
    plan_id = run(vibe, write_plan, shell("totals", "echo x >> tries.txt"))
    vibe.at(tmux)
    tmux.wait_for("Ask anything")
    tmux.type("/review")
    tmux.wait_for("tries.txt  by totals")
    tmux.type("cwhy x")
    tmux.wait_for("send 1 comment")
    tmux.press("Escape")
    tmux.wait_for("Ask anything")
    assert vibe("plan", "retry", plan_id, "totals").code == 0
    resume(vibe, plan_id)
    tmux.type("/review")
    tmux.wait_for("tries.txt  by totals, try 2")
    tmux.wait_for("you  why x")
    tmux.press("Enter")
    tmux.wait_for("step 'totals' runs again with 1 comment")

    until((vibe.home / "plans" / plan_id / "steps" / "totals" / "messages.3.jsonl").exists, seconds=60)
    until(lambda: prompts(vibe, plan_id, "totals", 3), seconds=60)
    assert "why x" in prompts(vibe, plan_id, "totals", 3)[0]
