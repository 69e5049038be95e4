"""The contract of programs that delegate to ``vibe --auto-approve -p``, with a client such as they have.

Covers ``vibe.cli``.
"""

from __future__ import annotations

import signal
import subprocess
from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e.conftest import VIBE, VibeCommand, leftovers

ANSWER = "The service is set up; it runs as you."


class CallError(Exception):
    """The client's report to its caller in place of an answer."""


@dataclass(frozen=True)
class Client:
    """Gives no stdin and takes stdout as the whole answer. Empty stdout or a nonzero exit code is a failure."""

    vibe: VibeCommand
    timeout_seconds: float = 120.0

    def execute(self, prompt: str, *, agent: str | None = None) -> str:
        words = [str(VIBE), "--auto-approve", "-p", prompt, *(["--agent", agent] if agent else [])]
        with subprocess.Popen(
            words,
            cwd=self.vibe.workdir,
            env=self.vibe.variables(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            try:
                out, err = process.communicate(timeout=self.timeout_seconds)
            except subprocess.TimeoutExpired as error:
                process.kill()
                raise CallError(f"timeout after {self.timeout_seconds} s") from error
        answer, said = out.decode("utf-8", "replace").strip(), err.decode("utf-8", "replace").strip()
        if process.returncode != 0:
            raise CallError(f"vibe exit {process.returncode}: {said[:500]}")
        if not answer:
            raise CallError(f"vibe produced no stdout: {said[:500]}")
        return answer


def bash(command: str, **more: Any) -> dict[str, Any]:
    return {"name": "bash", "arguments": {"command": command, **more}}


REFUSED = {
    "sudo": bash("sudo -n true"),
    "sudo in a chain": bash("cd . && sudo -n systemctl restart x || true"),
    "unconfined": bash("true", unconfined=True),
    "denylist": bash("vim a.txt"),
    "outside": {"name": "write_file", "arguments": {"path": "../elsewhere.txt", "content": "x"}},
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_a_refused_call_on_the_way_costs_no_finished_answer(vibe: VibeCommand, call: dict[str, Any]) -> None:
    vibe.replay({"agents": {"main": {"turns": [{"tool_calls": [call]}, {"text": ANSWER}]}}})

    ended = vibe("--auto-approve", "-p", "set the service up")

    assert (ended.code, ended.out.strip()) == (0, ANSWER)


def test_what_was_refused_is_listed_as_refused_by_rule(vibe: VibeCommand) -> None:
    turns = [{"tool_calls": [REFUSED["sudo"]]}, {"tool_calls": [REFUSED["denylist"]]}, {"text": ANSWER}]
    vibe.replay({"agents": {"main": {"turns": turns}}})

    record = vibe("--auto-approve", "--output", "json", "-p", "go").document

    assert (record["outcome"], record["exit_code"], record["result"]) == ("completed", 0, ANSWER)
    assert [denial["by"] for denial in record["denied"]] == ["rule", "rule"]


def test_without_auto_approve_the_same_needs_a_person(vibe: VibeCommand) -> None:
    vibe.replay({"agents": {"main": {"turns": [{"tool_calls": [REFUSED["sudo"]]}, {"text": ANSWER}]}}})

    record = vibe("--output", "json", "-p", "go").document

    assert (record["outcome"], record["exit_code"]) == ("blocked", 5)
    assert [denial["by"] for denial in record["denied"]] == ["headless"]


def test_a_step_of_a_plan_keeps_its_work_too(vibe: VibeCommand, write_plan: Any) -> None:
    vibe.replay({"agents": {"a": {"turns": [{"tool_calls": [REFUSED["sudo"]]}, {"text": ANSWER}]}}})
    plan = write_plan({"id": "a", "title": "Set it up", "mode": "code"})

    ended = vibe("plan", "run", plan, "--auto-approve", "--output", "json")

    assert (ended.code, [step["status"] for step in ended.document["steps"]]) == (0, ["completed"])


def test_a_subagents_refusal_costs_nothing_either(vibe: VibeCommand) -> None:
    agents = vibe.home / "agents"
    agents.mkdir(parents=True)
    (agents / "worker.toml").write_text('description = "Works"\nsafety = "neutral"\nagent_type = "subagent"\n')
    task = {"name": "task", "arguments": {"task": "set it up", "agent": "worker"}}
    worker = {"turns": [{"tool_calls": [REFUSED["sudo"]]}, {"text": "done"}]}
    vibe.replay({"agents": {"main": {"turns": [{"tool_calls": [task]}, {"text": ANSWER}]}, "worker": worker}})

    assert Client(vibe).execute("go") == ANSWER


def test_a_client_that_lost_its_patience_leaves_nothing_running(vibe: VibeCommand) -> None:
    turns = [{"tool_calls": [bash("echo $$ > pid; exec sleep 600")]}, {"text": "never"}]
    vibe.replay({"agents": {"main": {"turns": turns}}})
    process = vibe.start("--auto-approve", "-p", "go")
    pid = vibe.workdir / "pid"
    for _ in range(600):
        if pid.is_file() and pid.read_text().strip():
            break
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.1)

    process.send_signal(signal.SIGTERM)
    process.wait(timeout=60)

    assert not [line for line in leftovers(vibe.workdir) if "sleep" in line]
