"""``--detach``: the command continues without its terminal, and the caller has its id.

Covers ``vibe.cli``.
"""

from __future__ import annotations

import json
import os
import signal
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ipc.registry import Entry, Registry
from planner.author.output_repair import MODEL_ORIGIN, ORIGIN
from tests.e2e.conftest import VIBE, VibeCommand, command_step, leftovers
from tests.fakes.tmux import Tmux
from tests.fakes.waiting import until

WritePlan = Callable[..., str]

EXECUTES = True  # what a process takes over from a terminal is what these are about
WRITE = {"name": "write_file", "arguments": {"path": "a.txt", "content": "hello\n"}}
WAIT = {"name": "bash", "arguments": {"command": "touch started; while [ ! -e go ]; do sleep 0.05; done"}}


def turns(*given: dict[str, Any]) -> dict[str, Any]:
    return {"agents": {"main": {"turns": list(given)}}}


@pytest.fixture(autouse=True)
def nothing_stays(vibe: VibeCommand) -> Iterator[None]:
    """Kill what a failed test left running."""
    yield
    for entry in Registry(vibe.home).running():
        with suppress(ProcessLookupError):
            os.kill(entry.pid, signal.SIGKILL)


def running(vibe: VibeCommand) -> Entry:
    [entry] = Registry(vibe.home).running()
    return entry


def over(vibe: VibeCommand, pid: int) -> None:
    """Wait until a run is over and its process is gone."""
    until(lambda: not Registry(vibe.home).running() and not Path(f"/proc/{pid}").exists())


def requested(vibe: VibeCommand, source: str) -> str:
    """Wait for the one open request of a run, and return its id."""
    found: list[dict[str, Any]] = []
    until(lambda: found.extend(vibe("events", "answer", source, "--output", "json").document["requests"]) or found)
    return found[0]["request_id"]


def log_of(vibe: VibeCommand, session_id: str) -> Path:
    return vibe.home / "logs" / "session" / session_id / "detached.log"


def test_a_prompt_goes_on_and_is_answered_from_elsewhere(vibe: VibeCommand) -> None:
    vibe.replay(turns({"tool_calls": [WRITE]}, {"text": "Done."}))

    begun = vibe.process("-p", "write a.txt", "--detach")

    assert (begun.code, begun.err) == (0, "")
    entry, session_id = running(vibe), begun.out.strip()
    assert (begun.out, os.getsid(entry.pid)) == (f"{session_id}\n", entry.pid)
    assert Path(f"/proc/{entry.pid}/fd/0").resolve() == Path(os.devnull)
    assert entry.source[:8] in vibe("dashboard", "--plain").out
    assert vibe("events", "answer", session_id, requested(vibe, session_id), "yes").code == 0
    over(vibe, entry.pid)
    assert vibe("events", "tail", session_id, "--from", "1").code == 0
    assert (vibe.workdir / "a.txt").read_text() == "hello\n"
    assert log_of(vibe, session_id).read_text() == "Done.\n"
    assert stat.S_IMODE(log_of(vibe, session_id).stat().st_mode) == 0o600
    assert session_id[:12] in vibe("session", "list").out


def test_a_plan_goes_on_and_is_approved(vibe: VibeCommand, write_plan: WritePlan) -> None:
    vibe.replay({"agents": {"w": {"turns": [{"tool_calls": [WRITE]}, {"text": "Done."}]}}})
    plan = write_plan({"id": "w", "title": "Write", "mode": "code", "prompt": "Go."})

    begun = vibe.process("plan", "run", plan, "--detach", "--output", "json")

    entry = running(vibe)
    [plan_id] = vibe.plan_ids()
    log = vibe.home / "plans" / plan_id / "detached.log"
    assert begun.document == {"plan_id": plan_id, "source": entry.source, "pid": entry.pid, "log": str(log)}
    assert vibe("plan", "approve", plan_id, requested(vibe, plan_id)).code == 0
    over(vibe, entry.pid)
    _, document = log.read_text().split("\n{", 1)  # preceded by the command that answers
    record = json.loads("{" + document)
    assert (record["outcome"], record["exit_code"], record["plan_id"]) == ("completed", 0, plan_id)


def test_it_lives_on_when_its_terminal_is_gone(vibe: VibeCommand, tmux: Tmux) -> None:
    vibe.replay(turns({"tool_calls": [WAIT]}, {"text": "Done."}))
    vibe.at(tmux, "-p", "go", "--yolo", "--detach")
    tmux.wait_for("EXIT 0")
    session_id = next(line for line in tmux.screen() if len(line) == 32)
    until((vibe.workdir / "started").exists)
    pid = running(vibe).pid
    tmux.close()
    os.kill(pid, signal.SIGHUP)

    assert Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[4] == "0"  # no terminal
    (vibe.workdir / "go").touch()
    over(vibe, pid)
    assert log_of(vibe, session_id).read_text() == "Done.\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("-p", "go", "--detach", "--nosuch"), 2, "unknown argument '--nosuch'"),
        (("-p", "/nosuch", "--detach"), 2, "unknown command '/nosuch'"),
        (("-p", "go", "--detach", "--input", "json"), 2, "it can't be combined with --input json"),
        (("plan", "run", "plan.json", "--detach", "--input", "json"), 2, "it can't be combined with --input json"),
        (("plan", "run", "plan.json", "--detach", "--dry-run"), 2, "leave --detach out"),
        (("plan", "run", "missing.json", "--detach"), 2, "missing.json"),
        (("plan", "run", "plan.json", "--detach"), 5, "a model wrote"),
        (("-p", "go", "--detach", "--model", "keyless"), 3, "NO_SUCH_KEY"),
    ],
)
def test_what_fails_before_it_begins_is_told_here(
    vibe: VibeCommand, write_plan: WritePlan, words: tuple[str, ...], code: int, said: str
) -> None:
    vibe.replay(turns({"text": "Done."}))
    config = (vibe.home / "config.toml").read_text()
    vibe.configure(
        f'{config}[[providers]]\nname = "far"\napi_base = "http://127.0.0.1:9/v1"\napi_key_env_var = "NO_SUCH_KEY"\n'
        '[[models]]\nname = "keyless"\nprovider = "far"\n'
    )
    write_plan(command_step("a", "true"), metadata={ORIGIN: MODEL_ORIGIN})

    ended = vibe.process(*words)

    assert (ended.code, ended.out) == (code, ""), ended.err
    assert said in ended.err
    assert not list(vibe.home.rglob("detached.log"))
    assert not Registry(vibe.home).running()


def test_the_log_holds_no_secret_and_a_pipe_is_read(vibe: VibeCommand) -> None:
    vibe.environ["DEPLOY_TOKEN"] = "hunter2-and-more"  # noqa: S105  made up
    vibe.replay(turns({"text": "The token is hunter2-and-more."}))

    begun = vibe.process("-p", "look", "--detach", "--output", "json", stdin="some context")

    over(vibe, begun.document["pid"])
    log = Path(begun.document["log"]).read_text()
    assert "The token is" in log
    assert "hunter2" not in log
    messages = log_of(vibe, begun.document["session_id"]).with_name("messages.jsonl").read_text()
    assert "some context" in messages


def test_a_signal_ends_it_and_the_log_says_so(vibe: VibeCommand) -> None:
    vibe.replay(turns({"tool_calls": [WAIT]}, {"text": "never"}))
    begun = vibe.process("-p", "go", "--yolo", "--detach", "--output", "json").document
    until((vibe.workdir / "started").exists)

    os.kill(begun["pid"], signal.SIGTERM)

    over(vibe, begun["pid"])
    record = json.loads(Path(begun["log"]).read_text())
    assert (record["outcome"], record["exit_code"]) == ("interrupted", 143)


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda one: one.name)
def test_who_is_stopped_before_it_begins_leaves_nothing_running(vibe: VibeCommand, which: signal.Signals) -> None:
    vibe.replay(turns({"text": "never"}))
    with (vibe.home / "config.toml").open("a") as config:
        config.write(
            '[[mcp_servers]]\nname = "slow"\ntransport = "stdio"\nstartup_timeout_sec = 600.0\n'
            'command = ["sh", "-c", "touch began; exec sleep 600"]\n'
        )

    process = vibe.start("-p", "go", "--detach")
    until((vibe.workdir / "began").exists)
    process.send_signal(which)

    assert process.wait(60) == 128 + which
    until(lambda: not leftovers(vibe.workdir))


def test_a_conversation_that_is_not_kept_has_its_log_among_the_logs(vibe: VibeCommand) -> None:
    vibe.replay(turns({"text": "Done."}))
    vibe.configure(f"{(vibe.home / 'config.toml').read_text()}[session_logging]\nenabled = false\n")

    begun = vibe.process("-p", "go", "--detach", "--output", "json").document

    over(vibe, begun["pid"])
    assert begun["log"] == str(vibe.home / "logs" / f"{begun['session_id']}.detached.log")
    assert json.loads(Path(begun["log"]).read_text())["result"] == "Done."


def test_a_prompt_may_speak_of_it(vibe: VibeCommand) -> None:
    vibe.replay(turns({"text": "Done."}))

    assert vibe.process("-p", "--", "--detach").out == "Done.\n"


def test_a_program_that_runs_command_lines_itself_can_detach_none(vibe: VibeCommand) -> None:
    ended = vibe("-p", "go", "--detach")

    assert (ended.code, "start the vibe command" in ended.err) == (2, True)
    assert VIBE.exists()
