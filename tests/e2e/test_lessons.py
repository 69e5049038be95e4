"""Mistakes of another agent, and what this one does instead: one test for each row.

`PROVEN_ELSEWHERE` maps the rows whose test is in another file to that test; the others are below.

Covers ``vibe.core``.
"""

from __future__ import annotations

import ast
import json
import signal
from pathlib import Path

import pytest

from tests.e2e.conftest import REPOSITORY, VibeCommand, snapshot
from tests.e2e.test_prompt import WRITE, turns
from tests.e2e.test_subagents import a_long_time, agents, delegate, results_of, running_with, subagent
from tests.fakes.waiting import until

PROVEN_ELSEWHERE = {
    "a pipe needs no terminal": "tests/e2e/test_prompt.py::test_the_prompt_may_come_through_a_pipe",
    "deny is immovable": "tests/e2e/test_prompt.py::test_a_call_that_a_rule_denies_is_policy_at_work",
    "the approval mode is inherited": "tests/e2e/test_subagents.py::test_a_child_has_no_more_rights_than_its_parent",
    "one ledger": "tests/e2e/test_subagents.py::test_what_a_child_uses_counts_for_the_run",
    "depth 1": "tests/e2e/test_subagents.py::test_a_subagent_starts_no_subagent_and_hears_why",
    "spawn cap": "tests/e2e/test_subagents.py::test_there_is_a_cap_on_how_many_a_run_starts",
    "denied for want of an approver": "tests/e2e/test_prompt.py::test_a_call_nobody_could_approve_blocks_the_run",
    "always a final record": "tests/e2e/test_prompt.py::test_a_limit_ends_the_run_with_a_record",
    "both vocabularies": "tests/e2e/test_prompt.py::test_enabled_tools_are_all_there_is",
    "every retry is said": "tests/e2e/test_fault_matrix.py::test_a_fault_of_llmock",
    "a missing finish_reason": "tests/e2e/test_fault_matrix.py::test_a_fault_of_llmock",
    "an empty answer": "tests/e2e/test_fault_matrix.py::test_a_fault_of_llmock",
    "malformed arguments in history": (
        "tests/integration/core/llm/backend/test_backends.py::test_malformed_arguments_are_kept_as_worded"
    ),
    "one pooled client": "tests/integration/core/llm/backend/test_backends.py::test_many_requests_share_one_connection",
}


@pytest.mark.parametrize("test_id", sorted(set(PROVEN_ELSEWHERE.values())))
def test_what_is_proven_elsewhere_is_there(test_id: str) -> None:
    name, _, function = test_id.partition("::")
    tree = ast.parse((REPOSITORY / name).read_text(encoding="utf-8"))

    assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_the_deny_list_holds_for_subagents_of_a_run_that_approves_everything(vibe: VibeCommand) -> None:
    editing = {"name": "bash", "arguments": {"command": "vim a.txt"}}
    subagent(vibe, "helper", 'safety = "yolo"')
    vibe.replay(
        agents(
            main=[{"tool_calls": [delegate("go", agent="helper")]}, {"text": "done"}],
            helper=[{"tool_calls": [editing]}, {"text": "no editor"}],
        )
    )

    ended = vibe("--yolo", "--output", "streaming", "-p", "go")

    assert results_of(ended.lines, "bash")[0]["status"] == "denied"


def test_a_subagent_has_only_the_tools_its_parent_was_given(vibe: VibeCommand) -> None:
    subagent(vibe, "helper", 'safety = "yolo"')
    vibe.replay(
        agents(
            main=[{"tool_calls": [delegate("go", agent="helper")]}, {"text": "done"}],
            helper=[{"tool_calls": [WRITE]}, {"text": "could not"}],
        )
    )

    lines = vibe(
        "--yolo", "--enabled-tools", "task", "--enabled-tools", "grep", "--output", "streaming", "-p", "go"
    ).lines

    started = next(line for line in lines if line["type"] == "subagent.started")
    assert set(started["tools"]) == {"grep"}
    assert results_of(lines, "write_file")[0]["status"] == "error"
    assert not (vibe.workdir / "a.txt").exists()


@pytest.mark.parametrize(("which", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"])
def test_a_signal_saves_the_session_and_ends_with_record_and_code(
    vibe: VibeCommand, which: signal.Signals, code: int
) -> None:
    seconds = a_long_time()
    sleeping = {"name": "bash", "arguments": {"command": f"echo up > up; exec sleep {seconds}"}}
    vibe.replay(turns({"text": "first", "tool_calls": [WRITE]}, {"tool_calls": [sleeping]}))
    process = vibe.start("--yolo", "--output", "streaming", "-p", "go")
    until((vibe.workdir / "up").exists)

    process.send_signal(which)
    out, err = process.communicate(timeout=120)

    *events, record = [json.loads(line) for line in out.splitlines()]
    assert (process.returncode, record["exit_code"], record["outcome"]) == (code, code, "interrupted"), err
    assert (events[-1]["type"], events[-1]["exit_code"]) == ("session.ended", code)
    folder = vibe.home / "logs" / "session" / record["session_id"]
    roles = [json.loads(line)["role"] for line in (folder / "messages.jsonl").read_text().splitlines()]
    assert roles == ["user", "assistant", "tool", "assistant", "tool", "user"]  # the last one reports the interruption
    assert not running_with(seconds)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[tools.bash]\npermission = 'ask'\npermission = 'always'\n", ("config.toml", "permission")),
        (
            "[tools.bash]\npermission = 'sometimes'\n",
            ("config.toml:", "tools.bash.permission", "always", "ask", "never"),
        ),
    ],
    ids=["a key twice", "an unknown value"],
)
def test_a_mistake_in_the_settings_is_named_with_file_line_and_key(
    vibe: VibeCommand, text: str, says: tuple[str, ...]
) -> None:
    vibe.replay(turns({"text": "never"}))
    with (vibe.home / "config.toml").open("a") as file:
        file.write(text)

    ended = vibe("-p", "go")

    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1), ended.err
    assert all(word in ended.err for word in says), ended.err
    assert any(mark in ended.err for mark in (":9", ":10", "line 9", "line 10")), ended.err


def test_an_agent_file_with_misplaced_keys_gives_no_rights(vibe: VibeCommand) -> None:
    vibe.replay(turns({"tool_calls": [WRITE]}, {"text": "never"}))
    (vibe.home / "agents").mkdir()
    (vibe.home / "agents" / "careful.toml").write_text('[agent]\nsafety = "safe"\nenabled_tools = ["read_file"]\n')

    ended = vibe("--yolo", "--agent", "careful", "-p", "go")

    assert (ended.code, ended.out) == (2, ""), ended.err
    assert "careful" in ended.err
    assert not (vibe.workdir / "a.txt").exists()


def test_settings_are_read_and_never_rewritten(vibe: VibeCommand) -> None:
    vibe.replay(turns({"text": "hi"}))
    with (vibe.home / "config.toml").open("a") as file:
        file.write('\n# mine, keep it\n[tools.bash]\npermission   =   "ask"   # oddly spaced\n')
    config: dict[str, bytes] = {name: (vibe.home / name).read_bytes() for name in ("config.toml", "script.json")}
    project = vibe.workdir / ".vibe"
    project.mkdir()
    (project / "config.toml").write_text("# the project's\nauto_approve = false\n")
    before = snapshot(project)

    assert vibe("--trust", "-p", "go").out == "hi\n"
    assert {name: (vibe.home / name).read_bytes() for name in config} == config
    assert snapshot(project) == before


OLD_TOOL = '''
from vibe.core.tools.base import BaseTool, BaseToolConfig


class Shout(BaseTool[BaseToolConfig]):
    async def run(self, *args, **kwargs):
        """Say it."""
        return "never"
'''


def test_a_tool_that_would_die_at_its_first_call_is_refused_when_loaded(vibe: VibeCommand) -> None:
    folder = vibe.workdir / ".vibe" / "tools"
    folder.mkdir(parents=True)
    (folder / "shout.py").write_text(OLD_TOOL)
    vibe.replay(turns({"tool_calls": [{"name": "shout", "arguments": {}}]}, {"text": "no such tool"}))

    *events, record = vibe("--yolo", "--trust", "--output", "streaming", "-p", "go").lines

    assert any("shout.py" in warning for warning in record["warnings"]), record["warnings"]
    assert results_of(events, "shout")[0]["status"] == "error"


def test_tools_work_in_their_agents_folder_wherever_vibe_was_called(vibe: VibeCommand) -> None:
    elsewhere = vibe.workdir.parent / "elsewhere"
    elsewhere.mkdir()
    shell = {"name": "bash", "arguments": {"command": "pwd > where.txt"}}
    subagent(vibe, "helper", 'safety = "neutral"')
    vibe.replay(
        agents(
            main=[{"tool_calls": [WRITE, delegate("go", agent="helper")]}, {"text": "done"}],
            helper=[{"tool_calls": [shell]}, {"text": "done"}],
        )
    )

    assert vibe.process("--yolo", "--workdir", str(elsewhere), "-p", "go").code == 0

    assert Path((elsewhere / "where.txt").read_text().strip()).samefile(elsewhere)
    assert sorted(path.name for path in elsewhere.iterdir()) == ["a.txt", "where.txt"]
    assert list(vibe.workdir.iterdir()) == []
