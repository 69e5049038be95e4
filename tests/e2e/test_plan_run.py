"""Covers ``vibe.app.plan``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import EXAMPLES, REPOSITORY, VIBE, VibeCommand, command_step, snapshot
from tests.fakes.waiting import until

WritePlan = Callable[..., str]


MODEL_STEP = {"id": "w", "title": "Write", "mode": "code", "prompt": "Go."}


def test_steps_run_in_order_of_their_dependencies(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(
        command_step("c", "echo c >> log", depends_on=["b"]),
        command_step("b", "echo b >> log", depends_on=["a"]),
        command_step("a", "echo a >> log"),
    )

    ended = vibe.process("plan", "run", plan)

    assert ended.code == 0
    assert (vibe.workdir / "log").read_text() == "a\nb\nc\n"


def test_a_failure_blocks_what_depends_on_it_and_nothing_else(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(
        command_step("bad", "echo no >&2; exit 7"),
        command_step("after", "touch after", depends_on=["bad"]),
        command_step("other", "touch other"),
    )

    record = vibe("plan", "run", "--output", "json", plan).document

    assert (record["outcome"], record["exit_code"]) == ("failed", 1)
    steps = {step["id"]: step for step in record["steps"]}
    assert (steps["bad"]["status"], steps["bad"]["reason"]) == ("failed", "exit_code")
    assert "exited with 7" in steps["bad"]["detail"]
    assert steps["after"]["status"] == "blocked"
    assert steps["other"]["status"] == "completed"
    assert snapshot(vibe.workdir).keys() == {"other", "plan.json"}


def test_a_failure_that_may_be_passed_over_is_a_warning(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(
        command_step("bad", "exit 1", on_failure="continue"), command_step("after", "touch after", depends_on=["bad"])
    )

    record = vibe("plan", "run", "--output", "json", plan).document

    assert (record["outcome"], record["exit_code"]) == ("completed", 0)
    assert any("'bad' failed" in warning for warning in record["warnings"])


def test_a_step_is_tried_again_as_often_as_it_may(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(command_step("flaky", "echo x >> tries; test $(wc -l < tries) -ge 2", retries=2))

    record = vibe("plan", "run", "--output", "json", plan).document

    assert (record["exit_code"], record["steps"][0]["attempts"]) == (0, 2)


def test_a_command_that_runs_out_of_time_is_a_limit_and_leaves_nothing_behind(
    vibe: VibeCommand, write_plan: WritePlan
) -> None:
    plan = write_plan(command_step("slow", "sleep 60 & echo $! > pid; wait", timeout_seconds=0.5))

    record = vibe.process("plan", "run", "--output", "json", plan).document

    assert (record["outcome"], record["exit_code"], record["steps"][0]["reason"]) == ("limit", 4, "timeout")
    pid = int((vibe.workdir / "pid").read_text())
    until(lambda: not Path(f"/proc/{pid}").exists())


def test_a_check_that_never_passes_is_never_a_completed_step(vibe: VibeCommand, write_plan: WritePlan) -> None:
    vibe.replay({"agents": {"work": {"turns": [{"text": "I am sure it is done."}] * 3}}})
    plan = write_plan(
        {"id": "work", "title": "Work", "mode": "code", "prompt": "Make it.", "verify": ["test -f made"]},
    )

    record = vibe("plan", "run", "--output", "json", plan).document

    step = record["steps"][0]
    assert (record["exit_code"], step["status"], step["reason"]) == (1, "failed", "verify")
    assert step["usage"]["calls"] == 3


def test_a_steps_claim_on_files_is_a_boundary(vibe: VibeCommand, write_plan: WritePlan) -> None:
    def write(path: str) -> dict[str, Any]:
        return {"name": "write_file", "arguments": {"path": path, "content": "x"}}

    vibe.replay({
        "agents": {"work": {"turns": [{"tool_calls": [write("mine.txt"), write("yours.txt")]}, {"text": "ok"}]}}
    })
    plan = write_plan({"id": "work", "title": "Work", "mode": "code", "prompt": "Go.", "writes": ["mine.txt"]})

    record = vibe("plan", "run", "--auto-approve", "--output", "json", plan).document

    assert record["steps"][0]["files_changed"] == ["mine.txt"]
    assert not (vibe.workdir / "yours.txt").exists()


def test_research_has_no_tool_that_writes(vibe: VibeCommand, write_plan: WritePlan) -> None:
    call = {"name": "write_file", "arguments": {"path": "a", "content": "x"}}
    vibe.replay({"agents": {"look": {"turns": [{"tool_calls": [call]}, {"text": "I can't."}]}}})
    plan = write_plan({"id": "look", "title": "Look", "mode": "research"})

    lines = vibe("plan", "run", "--auto-approve", "--output", "streaming", plan).lines

    started = next(line for line in lines if line["type"] == "subagent.started")
    assert started["tools"] == ["glob", "grep", "list_dir", "read_file", "task", "todo"]
    assert not (vibe.workdir / "a").exists()
    assert all(
        line["subagent_id"] and line["subagent_step_id"] == "look"
        for line in lines
        if line["type"] in {"tool.call", "tool.result", "usage", "user.message", "assistant.message"}
    )


def test_dependants_are_told_what_was_found(vibe: VibeCommand, write_plan: WritePlan) -> None:
    vibe.replay({"agents": {"a": {"turns": [{"text": "The answer is 42."}]}, "b": {"turns": [{"text": "Noted."}]}}})
    plan = write_plan(
        {"id": "a", "title": "Find", "mode": "research"},
        {"id": "b", "title": "Use", "mode": "design", "depends_on": ["a"]},
    )

    lines = vibe("plan", "run", "--output", "streaming", plan).lines

    prompt = next(e["text"] for e in lines if e["type"] == "user.message" and e["subagent_step_id"] == "b")
    assert "The answer is 42." in prompt


def test_a_plans_token_budget_holds_for_all_its_steps_together(vibe: VibeCommand, write_plan: WritePlan) -> None:
    usage = {"prompt_tokens": 900, "completion_tokens": 100}
    looking = {"tool_calls": [{"name": "grep", "arguments": {"pattern": "x"}}], "usage": usage}
    vibe.replay({"agents": {"*": {"turns": [looking, {"text": "done", "usage": usage}]}}})
    plan = write_plan(
        *({"id": f"s{number}", "title": "Look", "mode": "research"} for number in range(6)),
        budget={"max_tokens": 6_000},
    )

    record = vibe("plan", "run", "--output", "json", plan).document

    assert (record["outcome"], record["exit_code"]) == ("limit", 4)
    assert record["usage"]["prompt_tokens"] + record["usage"]["completion_tokens"] <= 6_000
    assert {step["reason"] for step in record["steps"] if step["status"] == "failed"} == {"budget"}


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda one: one.name)
def test_who_stops_a_run_before_its_plan_is_open_is_told_so(vibe: VibeCommand, which: signal.Signals) -> None:
    vibe.replay({"turns": []})
    with subprocess.Popen(
        [VIBE, "plan", "run", "-"],
        cwd=vibe.workdir,
        env=vibe.variables(),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b" " * 200_000)  # more than a pipe holds: it waits for the rest
        process.stdin.flush()
        state = Path(f"/proc/{process.pid}/stat")
        until(lambda: state.read_text().rpartition(")")[2].split()[0] == "S")
        process.send_signal(which)
        assert process.wait(timeout=60) == 128 + which
        assert process.stderr is not None
        err = process.stderr.read()
    assert err.decode() == f"vibe: stopped by {which.name}\n"
    assert vibe.plan_ids() == []


@pytest.mark.parametrize(("which", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_leaves_a_run_that_can_be_resumed(
    vibe: VibeCommand, write_plan: WritePlan, which: signal.Signals, code: int
) -> None:
    plan = write_plan(
        command_step("first", "echo 1 >> log"),
        command_step(
            "second", "touch started; while [ ! -e go ]; do sleep 0.05; done; echo 2 >> log", depends_on=["first"]
        ),
        command_step("third", "echo 3 >> log", depends_on=["second"]),
    )
    process = vibe.start("plan", "run", plan, "--output", "streaming")
    assert process.stdout is not None
    until((vibe.workdir / "started").exists)

    process.send_signal(which)
    if which is signal.SIGINT:
        while b'"code":"pausing"' not in process.stdout.readline():
            pass
        process.send_signal(which)
    *_, last = process.stdout
    _, err = process.communicate(timeout=120)

    record = json.loads(last)
    assert (process.returncode, record["exit_code"], record["outcome"]) == (code, code, "interrupted"), err
    (vibe.workdir / "go").touch()
    resumed = vibe("plan", "resume", record["plan_id"])
    assert resumed.code == 0
    assert (vibe.workdir / "log").read_text() == "1\n2\n3\n"


LEAVING = """
import atexit, os, signal, sys
from vibe.cli.main import main
atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))
sys.exit(main(["plan", "list"]))
"""


def test_an_interrupt_while_the_process_cleans_up_is_no_traceback(vibe: VibeCommand) -> None:
    ended = vibe.run([sys.executable, "-c", LEAVING])

    assert (ended.code, ended.err) == (0, "")


def test_the_first_interrupt_lets_running_commands_end(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(
        command_step("one", "touch started; while [ ! -e go ]; do sleep 0.05; done; echo 1 >> log"),
        command_step("two", "echo 2 >> log", depends_on=["one"]),
    )
    process = vibe.start("plan", "run", plan)
    until((vibe.workdir / "started").exists)

    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    while b"pausing, still at work: one;" not in (said := process.stdout.readline()):
        assert said, "the person was not told what the pause waits for"
    (vibe.workdir / "go").touch()
    out, _ = process.communicate(timeout=120)

    assert process.returncode == 130
    assert f"continue with: vibe plan resume {vibe.plan_ids()[0]}" in out.decode()
    assert (vibe.workdir / "log").read_text() == "1\n"
    assert vibe("plan", "resume", vibe.plan_ids()[0]).code == 0
    assert (vibe.workdir / "log").read_text() == "1\n2\n"


def test_killing_the_run_kills_its_commands(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(command_step("long", "sleep 300 & echo $! > pid; touch started; wait"))
    process = vibe.start("plan", "run", plan)
    until((vibe.workdir / "started").exists)
    pid = int((vibe.workdir / "pid").read_text())

    process.kill()
    process.wait()

    until(lambda: not Path(f"/proc/{pid}").exists())


def test_two_processes_never_run_one_plan(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(command_step("long", "touch started; while [ ! -e go ]; do sleep 0.05; done"))
    process = vibe.start("plan", "run", plan)
    until((vibe.workdir / "started").exists)

    second = vibe("plan", "resume", vibe.plan_ids()[0])

    assert second.code == 3
    assert str(process.pid) in second.err
    (vibe.workdir / "go").touch()
    process.communicate(timeout=120)
    assert process.returncode == 0


def test_the_list_says_what_is_true_while_nothing_more_happens(vibe: VibeCommand, write_plan: WritePlan) -> None:
    waits = command_step("second", "touch started; while [ ! -e go ]; do sleep 0.05; done", depends_on=["first"])
    process = vibe.start("plan", "run", write_plan(command_step("first", "true"), waits))
    until((vibe.workdir / "started").exists)

    def counts() -> dict[str, int]:
        return json.loads(vibe("plan", "list", "--output", "json").out)[0]["counts"]

    until(lambda: counts() == {"completed": 1, "in_progress": 1})

    (vibe.workdir / "go").touch()
    process.communicate(timeout=120)
    assert process.returncode == 0


def test_a_late_subscriber_gets_every_event_once(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(
        *(command_step(f"s{number}", f"echo {number}") for number in range(10)),
        command_step(
            "wait",
            "touch started; while [ ! -e go ]; do sleep 0.05; done",
            depends_on=[f"s{number}" for number in range(10)],
        ),
        command_step("last", "for i in 1 2 3; do echo $i; done", depends_on=["wait"]),
    )
    run = vibe.start("plan", "run", "--output", "streaming", plan)
    until((vibe.workdir / "started").exists)
    tail = vibe.start("events", "tail", "--from", "1", "--output", "json")
    assert tail.stdout is not None
    first = os.read(tail.stdout.fileno(), 65_536)
    (vibe.workdir / "go").touch()
    published, _ = run.communicate(timeout=120)
    received, complaints = tail.communicate(timeout=120)

    assert (run.returncode, tail.returncode) == (0, 0), complaints
    *events, record = published.splitlines()
    assert json.loads(record)["type"] == "result"
    assert (first + received).splitlines() == events
    assert [json.loads(event)["seq"] for event in events] == list(range(1, len(events) + 1))


def test_running_publishers_are_listed(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(command_step("long", "touch started; while [ ! -e go ]; do sleep 0.05; done"))
    process = vibe.start("plan", "run", plan)
    until((vibe.workdir / "started").exists)

    listed = vibe("events", "list", "--output", "json").document

    assert [(entry["pid"], entry["info"]["plan_id"]) for entry in listed] == [(process.pid, vibe.plan_ids()[0])]
    (vibe.workdir / "go").touch()
    process.communicate(timeout=120)
    assert vibe("events", "list", "--output", "json").document == []


@pytest.mark.timeout(900)
def test_this_repositorys_own_checks_run_as_a_plan(vibe: VibeCommand) -> None:
    vibe.environ["CI_TESTS"] = "tests/architecture/test_tree.py -p no:cacheprovider"
    vibe.environ["CI_TYPES"] = "ipc"  # checking everything takes minutes, and scripts/check does it

    ended = vibe.process(
        "plan", "run", "--workdir", str(REPOSITORY), str(EXAMPLES / "ci.json"), "--output", "json", timeout=800
    )

    record = ended.document
    assert {step["id"]: step["status"] for step in record["steps"]}.keys() == {
        "lint", "format", "imports", "types", "tests", "report",
    }  # fmt: skip
    assert record["exit_code"] == 0, [step for step in record["steps"] if step["status"] != "completed"]


def test_the_review_example_runs_over_any_repository(vibe: VibeCommand) -> None:
    vibe.replay({
        "agents": {
            "*": {"turns": [{"tool_calls": [{"name": "grep", "arguments": {"pattern": "def"}}]}, {"text": "Fine."}]}
        }
    })

    record = vibe("plan", "run", str(EXAMPLES / "review.json"), "--output", "json").document

    assert (record["outcome"], record["result"]) == ("completed", "Fine.")
    assert snapshot(vibe.workdir) == {}


def test_a_dry_run_says_what_would_happen_and_writes_nothing(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(command_step("a", "echo a"), command_step("b", "echo b", depends_on=["a"]))

    ended = vibe("plan", "run", "--dry-run", plan)

    assert ended.code == 0
    assert "Critical path, 2 of 2 steps: a -> b" in ended.out
    assert "a: echo a" in ended.out
    facts = vibe("plan", "run", "--dry-run", "--output", "json", plan).document
    assert facts["order"] == [["a"], ["b"]]
    assert facts["commands"] == [{"step": "a", "command": "echo a"}, {"step": "b", "command": "echo b"}]
    assert not vibe.home.exists()


def test_the_setting_auto_approve_holds_for_plans_too(vibe: VibeCommand, write_plan: WritePlan) -> None:
    call = {"name": "write_file", "arguments": {"path": "a", "content": "x"}}
    vibe.replay({"agents": {"w": {"turns": [{"tool_calls": [call]}, {"text": "done"}]}}})
    (vibe.home / "config.toml").write_text("auto_approve = true\n" + (vibe.home / "config.toml").read_text())

    record = vibe("plan", "run", "--output", "json", write_plan(MODEL_STEP)).document

    assert (record["outcome"], (vibe.workdir / "a").read_text()) == ("completed", "x")


def test_a_finished_plan_is_listed_shown_and_not_resumed(vibe: VibeCommand, write_plan: WritePlan) -> None:
    assert vibe("plan", "run", write_plan(command_step("a", "echo a"))).code == 0
    plan_id = vibe.plan_ids()[0]

    assert plan_id in vibe("plan", "list").out
    assert "✓ a" in vibe("plan", "status", plan_id).out
    assert "✓ a" in vibe("plan", "show", plan_id[:12]).out
    assert "a" in vibe("plan", "graph", plan_id, "--format", "mermaid").out
    again = vibe("plan", "resume", plan_id)
    assert (again.code, again.err.count("\n")) == (2, 1)
    assert "nothing to resume" in again.err


def test_the_way_on_from_a_failed_plan_is_said(vibe: VibeCommand, write_plan: WritePlan) -> None:
    ended = vibe("plan", "run", write_plan(command_step("a", "test -e there")))
    [plan_id] = vibe.plan_ids()

    assert ended.code == 1
    assert ended.out.endswith(f"\ntry again with: vibe plan retry {plan_id} a, then vibe plan resume {plan_id}\n")
    (vibe.workdir / "there").touch()
    assert vibe("plan", "retry", plan_id, "a").code == 0
    assert vibe("plan", "resume", plan_id).code == 0


def test_a_step_that_hangs_on_a_decision_is_shown_so(vibe: VibeCommand, write_plan: WritePlan) -> None:
    options = [{"id": "yes", "label": "Yes"}, {"id": "no", "label": "No"}]
    decisions = [{"id": "ship", "question": "Ship?", "options": options}]
    plan = write_plan(command_step("a", "true", decision="ship", when={"ship": ["yes"]}), decisions=decisions)

    assert "    waits for the decision: ship\n    only if: ship is yes\n" in vibe("plan", "show", plan).out


def test_without_a_terminal_there_is_no_colour_and_no_question(vibe: VibeCommand, write_plan: WritePlan) -> None:
    vibe.replay({
        "agents": {
            "w": {
                "turns": [
                    {"tool_calls": [{"name": "write_file", "arguments": {"path": "a", "content": "x"}}]},
                    {"text": "no"},
                ]
            }
        }
    })
    plan = write_plan({"id": "w", "title": "Write", "mode": "code", "prompt": "Go."})
    vibe.environ["TERM"] = "xterm-256color"

    ended = vibe.run(["setsid", "--wait", str(VIBE), "plan", "run", plan])

    assert ended.code == 5
    assert "\x1b" not in ended.out + ended.err
    assert "denied" in ended.out


def test_validating_says_what_a_step_can_not_write_by_itself(vibe: VibeCommand) -> None:
    barred = [".env", ".git/hooks/x", ".vibe/config.toml", "../x", "/etc/passwd", "~/x", "id_rsa"]
    step = {"id": "a", "title": "A", "mode": "code", "writes": ["src/**", *barred, "docs/*.md"]}
    (vibe.workdir / "p.json").write_text(json.dumps({"version": 1, "goal": "g", "steps": [step]}))

    ended = vibe("plan", "validate", "p.json")

    assert (ended.code, ended.out.count("\n")) == (0, 1)
    told = "note: step 'a': what `writes` names is refused or asked about each time: "
    assert ended.err == f"{told}{', '.join(barred)}\n"


def test_a_plan_in_yaml_is_looked_at_run_and_kept_as_json(vibe: VibeCommand) -> None:
    steps = "steps:\n  - {id: a, title: A, mode: run, command: echo a >> log}\n"
    (vibe.workdir / "plan.yaml").write_text(f"version: 1\ngoal: Try\n{steps}")

    assert vibe("plan", "validate", "plan.yaml").out.startswith(f"{vibe.workdir}/plan.yaml is a valid plan: 1 step")
    assert "echo a >> log" in vibe("plan", "show", "plan.yaml").out
    record = vibe("plan", "run", "--output", "json", "plan.yaml").document

    assert (record["outcome"], (vibe.workdir / "log").read_text()) == ("completed", "a\n")
    kept = vibe.home / "plans" / record["plan_id"] / "plan.json"
    assert json.loads(kept.read_text())["steps"][0]["command"] == "echo a >> log"
    again = vibe("plan", "run", "--output", "json", "--reuse", "latest", "plan.yaml").document
    assert (again["steps"][0]["reason"], (vibe.workdir / "log").read_text()) == ("reused", "a\n")


def test_what_is_wrong_with_a_plan_in_yaml_is_said_with_its_line(vibe: VibeCommand) -> None:
    (vibe.workdir / "plan.yml").write_text(
        "version: 1\ngoal: Try\nsteps:\n  - id: a\n    title: A\n    mode: run\n    retries: yes\n"
    )

    ended = vibe("plan", "run", "plan.yml")

    assert ended.code == 2
    assert "plan.yml:7:5: steps[0].retries: must be a whole number, not 'yes'" in ended.err
