"""Commands for a plan from another terminal, while it runs and afterwards.

Covers ``vibe.app.plan``.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Finished, VibeCommand, command_step, snapshot
from tests.fakes.ports import ports_in_a_row
from tests.fakes.waiting import until

WritePlan = Callable[..., str]

WAITS = "touch started; while [ ! -e go ]; do sleep 0.02; done; echo ran >> log"


def ship(**fields: Any) -> dict[str, Any]:
    options = [{"id": "yes", "label": "Yes, ship it"}, {"id": "no", "label": "No", "description": "not on a Friday"}]
    return {"id": "ship", "question": "Ship it?", "options": options, **fields}


def started(vibe: VibeCommand, plan: str, *words: str) -> tuple[subprocess.Popen[bytes], str]:
    """Start a run, wait until a step waits for the file ``go``, and return the process and the plan's id."""
    process = vibe.start("plan", "run", "--output", "json", *words, plan)
    until(lambda: (vibe.workdir / "started").exists() or process.poll() is not None)
    assert process.poll() is None, process.communicate()
    return process, vibe.plan_ids()[0]


def ended(process: subprocess.Popen[bytes]) -> tuple[int, dict[str, Any]]:
    """Wait for a run to end, and return its exit code and record."""
    out, err = process.communicate(timeout=120)
    assert out, err
    return process.returncode, json.loads(out)


def statuses(vibe: VibeCommand, plan_id: str) -> dict[str, str]:
    document = vibe("plan", "status", plan_id, "--output", "json").document
    return {step["id"]: step["status"] for step in document["steps"]}


def refused(finished: Finished, code: int, *said: str) -> bool:
    """Check that a command ended with one sentence, and return whether that contains all of ``said``."""
    assert (finished.code, finished.out, finished.err.count("\n")) == (code, "", 1), finished
    assert "internal error" not in finished.err
    return all(words in finished.err for words in said)


# --- while it runs ------------------------------------------------------------------------------------------------


def test_a_running_plan_is_paused_and_goes_on_later(vibe: VibeCommand, write_plan: WritePlan) -> None:
    run, plan_id = started(vibe, write_plan(command_step("a", WAITS), command_step("b", "true", depends_on=["a"])))

    paused = vibe("plan", "pause", plan_id)
    (vibe.workdir / "go").touch()
    code, record = ended(run)

    assert (paused.code, paused.err) == (0, "")
    assert "safe point" in paused.out
    assert (code, record["outcome"], record["reason"]) == (130, "interrupted", "user")
    assert statuses(vibe, plan_id) == {"a": "completed", "b": "pending"}
    assert vibe("plan", "resume", plan_id).code == 0
    assert (vibe.workdir / "log").read_text() == "ran\n"


def test_a_pause_now_stops_what_runs(vibe: VibeCommand, write_plan: WritePlan) -> None:
    run, plan_id = started(vibe, write_plan(command_step("a", WAITS)))

    document = vibe("plan", "pause", plan_id[:-2], "--now", "--output", "json").document
    _, record = ended(run)

    assert (document["plan_id"], document["running"]) == (plan_id, True)
    assert record["outcome"] == "interrupted"
    assert not (vibe.workdir / "log").exists()


def test_a_cancelled_plan_is_gone_within_a_second_with_all_its_processes(
    vibe: VibeCommand, write_plan: WritePlan
) -> None:
    command = f"echo $$ > pid; {WAITS}"
    run, plan_id = started(vibe, write_plan(command_step("a", command), command_step("b", "true", depends_on=["a"])))
    shell = int((vibe.workdir / "pid").read_text())

    before = time.monotonic()
    vibe("plan", "pause", "no-such-plan")
    between = time.monotonic()
    cancelled = vibe("plan", "cancel", plan_id)
    took = time.monotonic() - between
    _, record = ended(run)

    assert (cancelled.code, cancelled.out) == (0, f"plan {plan_id}: cancelled\n")
    assert took < 5 + 10 * (between - before), "a second, and what a busy machine adds"
    until(lambda: not Path(f"/proc/{shell}").exists())
    assert {step["id"]: step["status"] for step in record["steps"]} == {"a": "cancelled", "b": "cancelled"}
    assert refused(vibe("plan", "resume", plan_id), 2, "cancelled")
    assert refused(vibe("plan", "cancel", plan_id), 2, "has ended (cancelled)")


def test_a_decision_is_taken_while_the_plan_runs(vibe: VibeCommand, write_plan: WritePlan) -> None:
    run, plan_id = started(
        vibe,
        write_plan(
            command_step("slow", WAITS),
            command_step("ship", "echo shipped >> log", decision="ship", when={"ship": ["yes"]}, depends_on=["slow"]),
            decisions=[ship()],
        ),
    )

    assert refused(vibe("plan", "decide", plan_id, "shop", "yes"), 2, "shop", "ship")
    assert refused(vibe("plan", "decide", plan_id, "ship", "perhaps"), 2, "perhaps", "yes")
    assert refused(vibe("plan", "decide", plan_id, "ship", "yes", "no"), 2, "ship")
    taken = vibe("plan", "decide", plan_id, "ship", "yes")
    assert (taken.code, taken.out) == (0, f"plan {plan_id}: decided 'ship': yes\n")
    assert refused(vibe("plan", "decide", plan_id, "ship", "no"), 2, "already decided")
    (vibe.workdir / "go").touch()
    code, record = ended(run)

    assert (code, record["outcome"]) == (0, "completed")
    assert (vibe.workdir / "log").read_text() == "ran\nshipped\n"


def test_a_decision_whose_time_was_over_stays_as_it_fell(vibe: VibeCommand, write_plan: WritePlan) -> None:
    run, plan_id = started(
        vibe,
        write_plan(
            command_step("slow", WAITS),
            command_step("ship", "touch shipped", decision="ship", when={"ship": ["no"]}),
            decisions=[ship(default="no", timeout_seconds=0.05)],
        ),
    )
    until((vibe.workdir / "shipped").exists)

    assert refused(vibe("plan", "decide", plan_id, "ship", "yes"), 2, "already decided")
    (vibe.workdir / "go").touch()
    assert ended(run)[0] == 0


def test_a_running_plan_gets_another_step(vibe: VibeCommand, write_plan: WritePlan) -> None:
    run, plan_id = started(
        vibe, write_plan(command_step("a", WAITS), command_step("b", "echo b >> log", depends_on=["a"]))
    )
    operations = [
        {"op": "add_step", "step": command_step("c", "echo c >> log", depends_on=["b"])},
        {"op": "update_step", "id": "b", "changes": {"command": "echo changed >> log"}},
    ]
    fixed = [{"op": "update_step", "id": "a", "changes": {"command": "true"}}]

    assert refused(vibe("plan", "edit", plan_id, "--operations", "-", stdin=json.dumps(fixed)), 2, "'a' is running")
    edited = vibe("plan", "edit", plan_id, "--operations", "-", "--reason", "more", stdin=json.dumps(operations))
    assert (edited.code, edited.err) == (0, "")
    assert "2 changes made" in edited.out
    assert "add step c (run) after b" in edited.out
    (vibe.workdir / "go").touch()
    code, record = ended(run)

    assert (code, record["outcome"], len(record["steps"])) == (0, "completed", 3)
    assert (vibe.workdir / "log").read_text() == "ran\nchanged\nc\n"
    assert statuses(vibe, plan_id) == {"a": "completed", "b": "completed", "c": "completed"}


def test_a_running_plan_gets_no_step_that_could_not_start(vibe: VibeCommand, write_plan: WritePlan) -> None:
    run, plan_id = started(vibe, write_plan(command_step("a", WAITS)))
    cases: list[tuple[dict[str, Any], tuple[str, ...]]] = [
        ({"mode": "code", "model": "gone"}, ("no model 'gone'",)),
        ({"mode": "code", "agent": "nobody"}, ("'nobody'",)),
        ({"mode": "run", "command": "true", "workspace": "worktree"}, ("not a git repository", "workspace 'shared'")),
        ({"mode": "code", "output_schema": {"type": "strange"}}, ("output_schema", "strange")),
    ]
    for fields, said in cases:
        operations = json.dumps([{"op": "add_step", "step": {"id": "b", "title": "B", **fields}}])
        assert refused(vibe("plan", "edit", plan_id, "--operations", "-", stdin=operations), 2, *said)
    (vibe.workdir / "go").touch()
    code, record = ended(run)

    assert (code, [step["id"] for step in record["steps"]]) == (0, ["a"])


def test_a_running_step_is_not_retried(vibe: VibeCommand, write_plan: WritePlan) -> None:
    run, plan_id = started(vibe, write_plan(command_step("a", WAITS)))

    assert refused(vibe("plan", "retry", plan_id, "a"), 2, "can't retry step 'a': it is running")
    (vibe.workdir / "go").touch()
    assert ended(run)[0] == 0


def test_of_two_decisions_at_once_one_is_taken(vibe: VibeCommand, write_plan: WritePlan) -> None:
    run, plan_id = started(
        vibe,
        write_plan(
            command_step("slow", WAITS),
            command_step("ship", "true", decision="ship", depends_on=["slow"]),
            decisions=[ship()],
        ),
    )
    both = [vibe.start("plan", "decide", plan_id, "ship", option) for option in ("yes", "no")]
    ends = [(process.communicate(timeout=120), process.returncode) for process in both]
    (vibe.workdir / "go").touch()
    ended(run)

    assert sorted(code for _, code in ends) == [0, 2], ends


def test_a_run_that_is_killed_while_it_is_asked_is_said_or_done_without(
    vibe: VibeCommand, write_plan: WritePlan
) -> None:
    run, plan_id = started(
        vibe, write_plan(command_step("a", WAITS), command_step("b", "true", decision="ship"), decisions=[ship()])
    )
    run.kill()
    run.wait()

    taken = vibe("plan", "decide", plan_id, "ship", "yes")

    assert (taken.code, taken.out.count("\n")) == (0, 2), taken
    assert f"vibe plan resume {plan_id}" in taken.out


def test_only_the_user_can_ask_and_no_list_shows_the_token(vibe: VibeCommand, write_plan: WritePlan) -> None:
    run, _ = started(vibe, write_plan(command_step("a", WAITS)))

    [entry] = vibe("events", "list", "--output", "json").document
    [file] = (vibe.home / "run").glob("*.json")

    assert entry["token"] == ""
    assert len(json.loads(file.read_text())["token"]) > 20
    assert file.stat().st_mode & 0o777 == 0o600
    (vibe.workdir / "go").touch()
    ended(run)


def test_a_control_address_in_use_keeps_a_run_from_starting(vibe: VibeCommand, write_plan: WritePlan) -> None:
    port = ports_in_a_row()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port + 2))
        taken.listen()
        finished = vibe("plan", "run", "--bus", f"tcp://127.0.0.1:{port}", write_plan(command_step("a", "true")))

    assert refused(finished, 3, f"tcp://127.0.0.1:{port + 2}", "in use")
    assert vibe.plan_ids() == []


def test_a_waiting_run_says_how_to_decide_and_is_decided_from_another_terminal(
    vibe: VibeCommand, write_plan: WritePlan
) -> None:
    plan = write_plan(command_step("s", "touch shipped", decision="ship", when={"ship": ["yes"]}), decisions=[ship()])
    run = vibe.start("plan", "run", "--wait", plan)
    assert run.stdout is not None
    while b"decide with:" not in (line := run.stdout.readline()):
        assert line, run.communicate()
    command = line.decode().partition("vibe ")[2].split()

    assert command == ["plan", "decide", vibe.plan_ids()[0], "ship", "OPTION"]
    assert vibe(*command[:-1], "yes").code == 0
    out, _ = run.communicate(timeout=120)

    assert (run.returncode, b"done: 1 of 1 step" in out) == (0, True)
    assert (vibe.workdir / "shipped").exists()


def test_what_becomes_of_a_failed_step_is_decided_from_another_terminal(
    vibe: VibeCommand, write_plan: WritePlan
) -> None:
    plan = write_plan(
        command_step("flaky", "test -e fixed && echo done >> log", on_failure="ask"),
        command_step("after", "echo after >> log", depends_on=["flaky"]),
    )
    run = vibe.start("plan", "run", "--wait", "--output", "json", plan)
    until(lambda: bool(vibe.plan_ids()) or run.poll() is not None)
    plan_id = vibe.plan_ids()[0]
    until(lambda: bool(vibe("plan", "status", plan_id, "--output", "json").document["open_decisions"]))
    (vibe.workdir / "fixed").touch()

    until(lambda: vibe("plan", "decide", plan_id, "failed:flaky:1", "retry").code == 0)  # status shows it earlier
    code, record = ended(run)

    assert (code, record["outcome"]) == (0, "completed")
    assert (vibe.workdir / "log").read_text() == "done\nafter\n"


def test_what_becomes_of_a_failed_step_is_decided_later(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(
        command_step("bad", "exit 1", on_failure="ask"), command_step("after", "echo after >> log", depends_on=["bad"])
    )
    stopped = vibe("plan", "run", plan)
    plan_id = vibe.plan_ids()[0]

    assert stopped.code == 5
    assert f"vibe plan decide {plan_id} failed:bad:1 OPTION" in stopped.out
    assert refused(vibe("plan", "decide", plan_id, "failed:bad:1", "again"), 2, "again", "skip")
    assert vibe("plan", "decide", plan_id, "failed:bad:1", "skip").code == 0
    vibe("plan", "resume", plan_id)
    assert (vibe.workdir / "log").read_text() == "after\n"


# --- when nobody runs it ------------------------------------------------------------------------------------------


@pytest.fixture
def paused(vibe: VibeCommand, write_plan: WritePlan) -> str:
    """Run a plan until it waits for a decision, and return its id."""
    plan = write_plan(
        command_step("a", "echo a >> log"),
        command_step("b", "echo b >> log", depends_on=["a"], decision="ship", when={"ship": ["yes"]}),
        decisions=[ship()],
    )
    assert vibe("plan", "run", plan).code == 5
    return vibe.plan_ids()[0]


def test_a_run_without_a_terminal_says_which_decision_waits_and_how_to_take_it(
    vibe: VibeCommand, write_plan: WritePlan
) -> None:
    plan = write_plan(command_step("b", "true", decision="ship"), decisions=[ship()])

    finished = vibe("plan", "run", plan)

    plan_id = vibe.plan_ids()[0]
    lines = [
        "decision ship: Ship it?",
        "  yes  Yes, ship it",
        "  no   No: not on a Friday",
        f"  decide with: vibe plan decide {plan_id} ship OPTION",
        f"continue with: vibe plan resume {plan_id}",
    ]
    assert finished.code == 5
    for look in (finished.out, vibe("plan", "status", plan_id).out):
        assert "\n".join(lines) in look
    assert "\n".join(lines[:-1]) in vibe("plan", "show", plan_id).out
    [decision] = vibe("plan", "status", plan_id, "--output", "json").document["open_decisions"]
    assert decision["command"] == f"vibe plan decide {plan_id} ship OPTION"
    assert [option["id"] for option in decision["options"]] == ["yes", "no"]


def test_a_paused_plan_is_decided_and_resumed(vibe: VibeCommand, paused: str) -> None:
    taken = vibe("plan", "decide", paused, "ship", "yes", "--output", "json")

    assert taken.code == 0
    assert taken.document["next"] == f"vibe plan resume {paused}"
    assert "decision ship" not in vibe("plan", "status", paused).out
    assert refused(vibe("plan", "decide", paused, "ship", "no"), 2, "already decided")
    assert vibe("plan", "resume", paused).code == 0
    assert (vibe.workdir / "log").read_text() == "a\nb\n"


def test_a_paused_plan_is_cancelled_for_good(vibe: VibeCommand, paused: str) -> None:
    cancelled = vibe("plan", "cancel", paused)

    assert (cancelled.code, cancelled.out) == (0, f"plan {paused}: cancelled; it was not running\n")
    assert statuses(vibe, paused) == {"a": "completed", "b": "cancelled"}
    for words in (("cancel",), ("pause",), ("resume",)):
        assert refused(vibe("plan", words[0], paused), 2, "cancelled")
    assert refused(vibe("plan", "decide", paused, "ship", "yes"), 2, "cancelled")


def test_a_failed_step_is_retried_with_what_depends_on_it(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(
        command_step("first", "echo first >> log"),
        command_step("flaky", "echo flaky >> log; test -e fixed", depends_on=["first"]),
        command_step("last", "echo last >> log", depends_on=["flaky"]),
        command_step("beside", "echo beside >> log", depends_on=["first"]),
    )
    assert vibe("plan", "run", "--max-parallel", "1", plan).code == 1
    plan_id = vibe.plan_ids()[0]
    (vibe.workdir / "fixed").touch()
    (vibe.workdir / "log").unlink()

    refused = vibe("plan", "retry", plan_id, "last")
    retried = vibe("plan", "retry", plan_id, "flaky", "--output", "json").document
    resumed = vibe("plan", "resume", plan_id, "--output", "json").document

    assert refused.code == 2
    assert "'last': it has not run yet: resume the plan, or retry the step that it waits for" in refused.err
    assert retried["steps"] == ["flaky", "last"]
    assert retried["next"] == f"vibe plan resume {plan_id}"
    assert resumed["outcome"] == "completed"
    assert (vibe.workdir / "log").read_text() == "flaky\nlast\n"
    assert {step["id"]: step["attempts"] for step in resumed["steps"]}["flaky"] == 2


def test_a_completed_plan_can_be_retried_from_its_first_step(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(command_step("a", "echo a >> log"), command_step("b", "echo b >> log", depends_on=["a"]))
    vibe("plan", "run", plan)
    plan_id = vibe.plan_ids()[0]

    assert "trying again: a, b\n" in vibe("plan", "retry", plan_id, "a").out
    assert vibe("plan", "resume", plan_id).code == 0
    assert (vibe.workdir / "log").read_text() == "a\nb\na\nb\n"


def test_a_paused_plan_is_edited_with_a_file(vibe: VibeCommand, paused: str) -> None:
    document = json.loads((vibe.workdir / "plan.json").read_text())
    document["steps"][1]["command"] = "echo other >> log"
    document["steps"].append(command_step("c", "echo c >> log", depends_on=["b"]))
    (vibe.workdir / "new.json").write_text(json.dumps(document))

    edited = vibe("plan", "edit", paused, "--file", "new.json")
    again = vibe("plan", "edit", paused, "--file", "new.json")

    assert (edited.code, again.code) == (0, 0), edited
    assert "change step b: command" in edited.out
    assert "nothing to change" in again.out
    assert "c: Step c" in vibe("plan", "show", paused).out
    assert vibe("plan", "resume", paused, "--decide", "ship=yes").code == 0
    assert (vibe.workdir / "log").read_text() == "a\nother\nc\n"


CYCLE = [
    {"op": "add_step", "step": command_step("x", "true", depends_on=["y"])},
    {"op": "add_step", "step": command_step("y", "true", depends_on=["x"])},
]
BAD_EDITS = (
    ("[", "JSON"),
    ("{}", "list"),
    ('[{"op": "remove_step", "id": "z"}]', "'z'"),
    ('[{"op": "fly"}]', "fly"),
    ('[{"op": "remove_step", "id": "a"}]', "'a'"),
    (json.dumps(CYCLE), "->"),
)


def test_an_edit_that_does_not_fit_changes_nothing(vibe: VibeCommand, paused: str) -> None:
    before = snapshot(vibe.home / "plans")

    for operations, said in BAD_EDITS:
        finished = vibe("plan", "edit", paused, "--operations", "-", stdin=operations)
        assert (finished.code, finished.out, said in finished.err) == (2, "", True), finished
    assert snapshot(vibe.home / "plans") == before


COMMANDS: dict[str, tuple[str, ...]] = {
    "pause": (),
    "cancel": (),
    "decide": ("ship", "yes"),
    "retry": ("a",),
    "edit": ("--operations", "ops.json"),
}


def test_a_plan_that_is_not_meant_is_left_alone(vibe: VibeCommand, paused: str) -> None:
    (vibe.workdir / "ops.json").write_text('[{"op": "remove_step", "id": "b"}]')
    twin = vibe.home / "plans" / f"{paused[:-1]}{'0' if paused[-1] != '0' else '1'}"
    shutil.copytree(vibe.home / "plans" / paused, twin)
    before = snapshot(vibe.home / "plans")

    for name, words in COMMANDS.items():
        assert refused(vibe("plan", name, "20200101-00", *words), 2, "20200101-00", "vibe plan list")
        assert refused(vibe("plan", name, paused[:-1], *words), 2, "2 plans")
    assert snapshot(vibe.home / "plans") == before


BROKEN: dict[str, tuple[str, bytes | None]] = {
    "plan gone": ("plan.json", None),
    "settings gone": ("run.json", None),
    "journal gone": ("journal.jsonl", None),
    "another version": ("run.json", b'{"version": 2, "workspace": "/"}'),
    "edited by hand": ("plan.json", b'{"version": 1, "goal": "g", "steps": []}'),
}


@pytest.mark.parametrize(("file", "content"), BROKEN.values(), ids=BROKEN.keys())
def test_a_folder_that_is_not_whole_is_one_sentence_and_stays_as_it_is(
    vibe: VibeCommand, paused: str, file: str, content: bytes | None
) -> None:
    (vibe.workdir / "ops.json").write_text('[{"op": "remove_step", "id": "b"}]')
    path = vibe.home / "plans" / paused / file
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    before = snapshot(vibe.home / "plans")

    for name in ("cancel", "decide", "retry", "edit"):
        finished = vibe("plan", name, paused, *COMMANDS[name])
        assert refused(finished, 3, file), finished
    assert snapshot(vibe.home / "plans") == before


def test_a_step_or_decision_that_is_not_there_is_one_sentence(vibe: VibeCommand, paused: str) -> None:
    before = snapshot(vibe.home / "plans")

    assert refused(vibe("plan", "retry", paused, "bb"), 2, "'bb'", "did you mean 'b'?")
    assert refused(vibe("plan", "decide", paused, "shop", "yes"), 2, "shop", "ship")
    assert refused(vibe("plan", "decide", paused, "ship", "perhaps"), 2, "perhaps", "yes, no")
    assert refused(vibe("plan", "pause", paused), 2, "not running", "vibe plan resume")
    assert refused(vibe("plan", "edit", paused), 2, "--operations")
    assert refused(vibe("plan", "edit", paused, "--operations", "none.json"), 2, "none.json")
    assert snapshot(vibe.home / "plans") == before
