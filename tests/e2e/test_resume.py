"""Resuming a plan whose process was killed, whose files were torn, or whose surroundings changed.

Covers ``vibe.app.plan``.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import EXAMPLES, VibeCommand, command_step, snapshot
from tests.fakes.model_server import ModelServer, Received, Reply, ServedCall
from tests.fakes.programs import missing
from tests.fakes.waiting import until
from vibe.shell.sandbox.bubblewrap import find_bubblewrap

WritePlan = Callable[..., str]

USAGE = {"prompt_tokens": 4_900, "completion_tokens": 100}
CALL_TOKENS = 5_000
SLOW = "echo ran >> log; touch started; while [ ! -e go ]; do sleep 0.05; done"


def results_in(request: Received) -> list[str]:
    """Return the tool results in a request."""
    return [message["content"] for message in request.body["messages"] if message["role"] == "tool"]


def one_slow_call(request: Received) -> Reply:
    """Call the slow command first, and then answer."""
    if results_in(request):
        return Reply(text="I looked at it.", usage=USAGE)
    arguments = json.dumps({"command": SLOW})
    return Reply(tool_calls=(ServedCall(name="bash", arguments=arguments),), usage=USAGE)


@pytest.fixture
def server(vibe: VibeCommand, server: ModelServer) -> ModelServer:
    """Serve a model that makes one slow call in each conversation, as the command's only model."""
    server.responder = one_slow_call
    vibe.environ["MODEL_KEY"] = "sk-x"
    vibe.configure(
        'active_model = "m"\n[[providers]]\nname = "here"\nbackend = "generic"\n'
        f'api_base = "{server.api_base}"\napi_key_env_var = "MODEL_KEY"\n'
        '[[models]]\nname = "m"\nprovider = "here"\ninput_price = 1.0\noutput_price = 1.0\n'
    )
    return server


def model_step(step_id: str, **fields: Any) -> dict[str, Any]:
    return {"id": step_id, "title": f"Step {step_id}", "mode": "test", "prompt": "Run it.", **fields}


def started(vibe: VibeCommand, *words: str) -> subprocess.Popen[bytes]:
    """Start a run, and wait until it is in the middle of its slow command."""
    process = vibe.start(*words)
    until(lambda: (vibe.workdir / "started").exists() or process.poll() is not None)
    assert process.poll() is None, process.communicate()
    return process


def kill_in_the_slow_call(vibe: VibeCommand, plan: str) -> str:
    """Start a plan, kill it in the middle of its slow command, and return its id."""
    process = started(vibe, "plan", "run", "--auto-approve", plan)
    process.kill()
    process.wait()
    (vibe.workdir / "go").touch()
    return vibe.plan_ids()[0]


def runs_of_the_command(vibe: VibeCommand) -> int:
    return (vibe.workdir / "log").read_text().count("ran\n")


def used(record: dict[str, Any]) -> tuple[int, int]:
    """Return the calls and the tokens of the whole plan."""
    usage = record["usage"]
    return usage["calls"], usage["prompt_tokens"] + usage["completion_tokens"]


def test_a_call_cut_off_by_a_kill_is_told_to_the_model_and_not_repeated(
    vibe: VibeCommand, write_plan: WritePlan, server: ModelServer
) -> None:
    plan_id = kill_in_the_slow_call(vibe, write_plan(model_step("s")))

    record = vibe("plan", "resume", plan_id, "--output", "json").document

    assert (record["outcome"], record["result"].strip()) == ("completed", "I looked at it.")
    assert runs_of_the_command(vibe) == 1
    assert len(server.requests) == 2
    assert "interrupted" in results_in(server.requests[1])[0]
    assert used(record) == (2, 2 * CALL_TOKENS)
    assert record["cost_usd"] == pytest.approx(2 * CALL_TOKENS / 1e6)


@pytest.mark.parametrize("whose", ["the step's", "the plan's"])
def test_tokens_spent_before_a_kill_count_against_the_budget(
    vibe: VibeCommand, write_plan: WritePlan, server: ModelServer, whose: str
) -> None:
    limit = {"max_tokens": CALL_TOKENS + 200}
    if whose == "the step's":
        plan = write_plan(model_step("s", **limit))
    else:
        plan = write_plan(model_step("s"), model_step("t", depends_on=[{"step": "s", "on": "finished"}]), budget=limit)
    plan_id = kill_in_the_slow_call(vibe, plan)

    ended = vibe("plan", "resume", plan_id, "--output", "json")

    assert (ended.code, ended.document["outcome"]) == (4, "limit")
    assert ended.document["steps"][0]["reason"] == "budget"
    assert len(server.requests) == 1, "no call may be made for which there is no room"
    assert used(ended.document) == (1, CALL_TOKENS)


def test_a_second_kill_forgets_nothing(vibe: VibeCommand, write_plan: WritePlan, server: ModelServer) -> None:
    plan = write_plan(model_step("a"), model_step("b", depends_on=["a"]), budget={"max_tokens": 20 * CALL_TOKENS})
    plan_id = kill_in_the_slow_call(vibe, plan)
    (vibe.workdir / "started").unlink()
    (vibe.workdir / "go").unlink()
    again = started(vibe, "plan", "resume", plan_id)
    again.kill()
    again.wait()
    (vibe.workdir / "go").touch()

    record = vibe("plan", "resume", plan_id, "--output", "json").document

    assert len(server.requests) == 4
    assert used(record) == (4, 4 * CALL_TOKENS)
    assert runs_of_the_command(vibe) == 2


@pytest.mark.parametrize("interrupts", [1, 2])
def test_a_pause_neither_doubles_nor_loses_what_was_spent(
    vibe: VibeCommand, write_plan: WritePlan, server: ModelServer, interrupts: int
) -> None:
    plan = write_plan(model_step("s"))
    process = started(vibe, "plan", "run", "--auto-approve", "--output", "json", plan)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    said = process.stderr.readline()  # two signals at once would merge
    assert b"pausing" in said
    if interrupts == 2:
        process.send_signal(signal.SIGINT)
    else:
        (vibe.workdir / "go").touch()
    out, err = process.communicate(timeout=120)
    paused = json.loads(out)

    assert (process.returncode, used(paused)) == (130, (1, CALL_TOKENS)), err
    record = vibe("plan", "resume", paused["plan_id"], "--output", "json").document
    assert record["outcome"] == "completed"
    assert used(record) == (2, 2 * CALL_TOKENS)
    assert len(server.requests) == 2
    assert runs_of_the_command(vibe) == 1


def decision(**fields: Any) -> dict[str, Any]:
    options = [{"id": "yes", "label": "Yes"}, {"id": "no", "label": "No"}]
    return {"id": "ship", "question": "Ship it?", "options": options, **fields}


def test_a_decision_may_be_taken_with_the_resume(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(
        command_step("first", "echo 1 >> log"),
        command_step("second", "echo 2 >> log", depends_on=["first"], decision="ship", when={"ship": ["yes"]}),
        decisions=[decision()],
    )
    first = vibe("plan", "run", "--output", "json", plan)
    plan_id = first.document["plan_id"]
    assert (first.code, first.document["outcome"]) == (5, "blocked")

    unanswered = vibe("plan", "resume", plan_id)
    wrong = vibe("plan", "resume", plan_id, "--decide", "ship=perhaps")
    answered = vibe("plan", "resume", plan_id, "--decide", "ship=yes")

    assert (unanswered.code, wrong.code, answered.code) == (5, 2, 0)
    assert "yes, no" in wrong.err
    assert "Ship it?" in unanswered.out
    assert (vibe.workdir / "log").read_text() == "1\n2\n"


def test_what_a_failed_step_waits_for_may_be_decided_with_the_resume(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(
        command_step("first", "echo 1 >> log; test -e ready", on_failure="ask"),
        command_step("second", "echo 2 >> log", depends_on=["first"]),
    )
    plan_id = vibe("plan", "run", "--output", "json", plan).document["plan_id"]

    early = vibe("plan", "resume", plan_id, "--decide", "failed:first:2=retry")
    wrong = vibe("plan", "resume", plan_id, "--decide", "failed:first:1=perhaps")
    again = vibe("plan", "resume", plan_id, "--decide", "failed:first:1=retry")
    (vibe.workdir / "ready").touch()
    ended = vibe("plan", "resume", plan_id, "--decide", "failed:first:2=retry")

    assert (early.code, wrong.code, again.code, ended.code) == (2, 2, 5, 0), ended.err
    assert "it has failed:first:1" in early.err
    assert "retry, skip, stop" in wrong.err
    assert (vibe.workdir / "log").read_text() == "1\n1\n1\n2\n"


def test_a_resume_cannot_decide_otherwise_what_was_decided(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(
        command_step("first", "false", when={"ship": ["yes"]}, on_failure="ask"),
        command_step("second", "true", when={"ship": ["no"]}),
        decisions=[decision()],
    )
    plan_id = vibe("plan", "run", "--output", "json", "--decide", "ship=yes", plan).document["plan_id"]

    other = vibe("plan", "resume", plan_id, "--decide", "ship=no")
    same = vibe("plan", "resume", plan_id, "--decide", "ship=yes", "--decide", "failed:first:1=skip")

    assert (other.code, other.out, other.err.count("\n")) == (2, "", 1)
    assert "--decide ship=no: already decided: yes" in other.err
    assert same.code == 0, same.err


def test_a_resume_may_change_approvals_model_and_width(vibe: VibeCommand, write_plan: WritePlan) -> None:
    write = {"name": "write_file", "arguments": {"path": "a.txt", "content": "x"}}
    vibe.replay({"agents": {"w": {"turns": [{"tool_calls": [write]}, {"text": "written"}]}}})
    config = (vibe.home / "config.toml").read_text()
    vibe.configure(config + '[[models]]\nname = "other"\nprovider = "replay"\n')
    plan = write_plan(
        {"id": "w", "title": "Write", "mode": "code", "prompt": "Go.", "decision": "ship"}, decisions=[decision()]
    )
    plan_id = vibe("plan", "run", "--output", "json", plan).document["plan_id"]
    flags = ("--decide", "ship=yes", "--approve", "edits", "--model", "other", "--max-parallel", "1")

    lines = vibe("plan", "resume", plan_id, "--output", "streaming", *flags).lines

    assert lines[-1]["outcome"] == "completed"
    assert next(line["model"] for line in lines if line["type"] == "subagent.started") == "other"
    assert (vibe.workdir / "a.txt").read_text() == "x"


TAILS = {"torn": b'{"type":"plan.step","ts":17', "zeros": b"\0" * 4096, "torn and zeros": b'{"role":"assi\0\0\0\0'}


@pytest.mark.parametrize("tail", TAILS.values(), ids=TAILS.keys())
def test_a_damaged_end_of_journal_and_conversation_is_cut_and_said(
    vibe: VibeCommand, write_plan: WritePlan, server: ModelServer, tail: bytes
) -> None:
    plan_id = kill_in_the_slow_call(vibe, write_plan(model_step("s")))
    folder = vibe.home / "plans" / plan_id
    for name in ("journal.jsonl", "steps/s/messages.jsonl"):
        with (folder / name).open("ab") as file:
            file.write(tail)

    lines = vibe("plan", "resume", plan_id, "--output", "streaming").lines

    assert (lines[-1]["outcome"], used(lines[-1])) == ("completed", (2, 2 * CALL_TOKENS))
    codes = {line["code"] for line in lines if line["type"] == "warning"}
    assert codes == {"journal.torn", "transcript.torn"}
    assert len(server.requests) == 2
    for name in ("journal.jsonl", "steps/s/messages.jsonl"):
        assert all(json.loads(line) for line in (folder / name).read_bytes().splitlines())


def test_facts_missing_from_the_middle_of_the_journal_are_said(vibe: VibeCommand, write_plan: WritePlan) -> None:
    steps = command_step("a", "true"), command_step("b", "true", decision="ship")
    vibe("plan", "run", write_plan(*steps, decisions=[decision()]))
    [plan_id] = vibe.plan_ids()
    journal = vibe.home / "plans" / plan_id / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    gap = next(number for number, line in enumerate(lines) if json.loads(line).get("status") == "completed")
    journal.write_bytes(b"".join([*lines[:gap], *lines[gap + 1 :]]))

    told = f"journal.jsonl:{gap + 1}: fact {gap + 2} is where fact {gap + 1} belongs"
    assert told in "\n".join(vibe("plan", "report", plan_id, "--format", "json").document["warnings"])
    assert told in vibe("plan", "resume", plan_id, "--decide", "ship=yes").out
    assert [json.loads(line)["seq"] for line in journal.read_bytes().splitlines()][-1] > len(lines)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("plan.json", None),
        ("run.json", None),
        ("journal.jsonl", None),
        ("journal.jsonl", b'{"broken\n{"type":"plan.paused","ts":1.0,"reason":"user"}\n'),
        ("journal.jsonl", b'{"type":"teleported","ts":1.0}\n'),
        ("run.json", b"{}"),
        ("run.json", b'{"version": 2, "teleports": true}'),
        ("plan.json", b"[]"),
        ("plan.json", b'{"version": 2}'),
    ],
)
def test_a_folder_that_can_not_be_read_back_is_one_clear_sentence(
    vibe: VibeCommand, write_plan: WritePlan, name: str, content: bytes | None
) -> None:
    vibe("plan", "run", write_plan(command_step("a", "true", decision="ship"), decisions=[decision()]))
    plan_id = vibe.plan_ids()[0]
    path = vibe.home / "plans" / plan_id / name
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    before = snapshot(vibe.home)

    for words in (("resume", plan_id, "--decide", "ship=yes"), ("status", plan_id), ("report", plan_id)):
        ended = vibe("plan", *words)
        assert (ended.code, ended.out, ended.err.count("\n")) == (3, "", 1), ended
        assert str(path) in ended.err
        assert "restore the file from a backup or run the plan again" in ended.err
    assert vibe("plan", "list").code == 0
    assert snapshot(vibe.home) == before


def test_a_plan_goes_on_without_the_folders_of_its_steps(vibe: VibeCommand, write_plan: WritePlan) -> None:
    vibe.replay({"agents": {"a": {"turns": [{"text": "The answer is 42."}]}, "b": {"turns": [{"text": "Noted."}]}}})
    plan = write_plan(
        {"id": "a", "title": "Find", "mode": "research"},
        {"id": "b", "title": "Use", "mode": "design", "depends_on": ["a"], "decision": "ship"},
        decisions=[decision()],
    )
    plan_id = vibe("plan", "run", "--output", "json", plan).document["plan_id"]
    shutil.rmtree(vibe.home / "plans" / plan_id / "steps")

    lines = vibe("plan", "resume", plan_id, "--decide", "ship=yes", "--output", "streaming").lines

    assert (lines[-1]["outcome"], lines[-1]["usage"]["calls"]) == ("completed", 2)
    assert any("The answer is 42." in line["text"] for line in lines if line["type"] == "user.message")


def test_a_workspace_that_is_gone_is_said(vibe: VibeCommand, write_plan: WritePlan, tmp_path: Path) -> None:
    workspace = tmp_path / "elsewhere"
    workspace.mkdir()
    plan = write_plan(command_step("a", "true", decision="ship"), decisions=[decision()])
    vibe("plan", "run", "--workdir", str(workspace), plan)
    workspace.rmdir()

    ended = vibe("plan", "resume", vibe.plan_ids()[0], "--decide", "ship=yes")

    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert str(workspace) in ended.err
    assert not workspace.exists()


def test_of_two_resumes_at_once_one_runs_the_plan(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(command_step("a", SLOW, decision="ship"), decisions=[decision()])
    vibe("plan", "run", plan)
    words = ("plan", "resume", vibe.plan_ids()[0], "--decide", "ship=yes")
    both = [vibe.start(*words), vibe.start(*words)]
    until(lambda: any(process.poll() is not None for process in both))

    (vibe.workdir / "go").touch()
    ends = [(process.communicate(timeout=120), process.returncode) for process in both]

    assert sorted(code for _, code in ends) == [0, 3], ends
    refused = next(err.decode() for (_, err), code in ends if code == 3)
    assert any(str(process.pid) in refused for process in both)
    assert runs_of_the_command(vibe) == 1


def test_a_resume_of_a_plan_that_has_ended_takes_away_what_a_killed_process_left(
    vibe: VibeCommand, write_plan: WritePlan
) -> None:
    ended = write_plan(command_step("a", "true"))
    vibe("plan", "run", ended)
    (plan_id,) = vibe.plan_ids()
    process = started(vibe, "plan", "run", write_plan(command_step("a", SLOW)))
    process.kill()
    process.wait()
    left = sorted((vibe.home / "run").rglob("*.ipc"))
    entries = sorted((vibe.home / "run").glob("*.json"))
    (vibe.workdir / "go").touch()
    assert left
    assert entries

    refused = vibe("plan", "resume", plan_id)

    assert (refused.code, "has ended (completed)" in refused.err) == (2, True), refused.err
    assert not [path for path in (*left, *entries) if path.exists()]


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("words", ["resume {killed}", "resume {ended}", "run plan.json"])
def test_what_kept_places_empty_for_a_killed_command_is_taken_away_without_a_word(
    vibe: VibeCommand, write_plan: WritePlan, words: str
) -> None:
    if not sys.platform.startswith("linux") or isinstance(find_bubblewrap({}), str):
        missing("only bubblewrap needs anything to stand there")
    vibe("plan", "run", write_plan(command_step("a", "true")))
    (ended,) = vibe.plan_ids()
    process = started(vibe, "plan", "run", "--auto-approve", write_plan(model_step("s")))
    process.kill()
    process.wait()
    (vibe.workdir / "go").touch()
    (killed,) = set(vibe.plan_ids()) - {ended}
    assert {".vibe", ".agents"} <= {path.name for path in vibe.workdir.iterdir()}

    write_plan(command_step("a", "true"))
    said = vibe("plan", *words.format(killed=killed, ended=ended).split())

    assert not {".vibe", ".agents"} & {path.name for path in vibe.workdir.iterdir()}
    assert "trust" not in said.err


def test_a_demonstration_whose_copy_was_deleted_says_so(vibe: VibeCommand, tmp_path: Path) -> None:
    process = vibe.start("plan", "run", "--approve", "edits", str(EXAMPLES / "quickstart.json"))
    until(lambda: any(tmp_path.glob("vibe-sample-*/project/textkit")))
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    assert process.returncode == 143
    sample = next(tmp_path.glob("vibe-sample-*"))
    shutil.rmtree(sample)

    ended = vibe("plan", "resume", vibe.plan_ids()[0])

    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert str(sample) in ended.err
    assert not sample.exists()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only there is a detached process found again")
def test_what_a_killed_run_left_detached_is_ended_before_its_step_begins_again(
    vibe: VibeCommand, write_plan: WritePlan
) -> None:
    detached = "setsid sh -c 'echo $$ > pid; exec sleep 300' & until [ -s pid ]; do sleep 0.02; done"
    plan = write_plan(command_step("a", f"[ -e pid ] && exit; {detached}; touch started; wait"))
    run = vibe.start("plan", "run", plan)
    until((vibe.workdir / "started").exists)
    run.kill()
    run.wait()
    words = Path(f"/proc/{(vibe.workdir / 'pid').read_text().strip()}/cmdline")
    assert words.read_bytes()

    assert vibe("plan", "resume", *vibe.plan_ids()).code == 0
    assert not words.exists() or not words.read_bytes()  # a process that ended may not be collected yet


def done(_request: Received) -> Reply:
    return Reply(text="Done.")


def test_what_only_finished_steps_needed_may_be_gone_at_a_resume(
    vibe: VibeCommand, write_plan: WritePlan, server: ModelServer
) -> None:
    with_both = (vibe.home / "config.toml").read_text()
    server.responder = done
    vibe.configure(f'{with_both}[[models]]\nname = "n"\nprovider = "here"\n')
    for words in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "start")):
        subprocess.run(("git", "-c", "user.name=A", "-c", "user.email=a@b.c", *words), cwd=vibe.workdir, check=True)
    plan = write_plan(
        model_step("first", model="n", workspace="worktree"),
        command_step("wait", "test -e go", depends_on=["first"], on_failure="ask"),
        model_step("last", depends_on=["wait"]),
    )
    assert vibe("plan", "run", "--auto-approve", "--allow-dirty", plan).code == 5
    (vibe.workdir / "go").touch()
    shutil.rmtree(vibe.workdir / ".git")
    vibe.configure(with_both)

    ended = vibe("plan", "resume", "latest", "--auto-approve", "--decide", "failed:wait:1=retry", "--output", "json")

    assert [step["status"] for step in ended.document["steps"]] == ["completed"] * 3, ended.err
    again = vibe("plan", "retry", "latest", "first"), vibe("plan", "resume", "latest", "--auto-approve")
    assert "no model 'n'" in again[1].err, "a step that is to run again needs its model"
