"""Covers ``vibe.core.tools``, ``vibe.app.inspect``."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.e2e.conftest import VIBE, VibeCommand


def explain(vibe: VibeCommand, *words: str) -> dict[str, Any]:
    return vibe("permissions", "explain", *words, "--json").document


@pytest.mark.parametrize(
    ("tool", "arguments", "decision", "rule"),
    [
        ("bash", "git status", "allow", "allowlist"),
        ("bash", '{"command": "git status", "timeout": 5}', "allow", "allowlist"),
        ("bash", "rm -rf src", "ask", "permission"),
        ("bash", "{ ls; }", "allow", "allowlist"),
        ("bash", "cat ../x", "ask", "permission"),
        ("bash", "vim x", "deny", "denylist"),
        ("bash", "sudo ls", "ask", "each_time"),
        ("read_file", "a.txt", "allow", "permission"),
        ("read", "a.txt", "allow", "permission"),
        ("read_file", ".env", "ask", "sensitive"),
        ("read_file", "/etc/passwd", "ask", "outside"),
        ("read_file", "a\\u0000", "allow", "permission"),
        ("write_file", '{"path": "a.txt", "content": "x"}', "ask", "permission"),
        ("write_file", '{"path": ".git/hooks/x", "content": "x"}', "ask", "control"),
    ],
)
def test_a_call_is_explained(vibe: VibeCommand, tool: str, arguments: str, decision: str, rule: str) -> None:
    told = explain(vibe, tool, arguments)
    assert (told["decision"], told["rule"]) == (decision, rule)
    assert told["reason"]


def test_the_sentence_names_decision_rule_and_reason(vibe: VibeCommand) -> None:
    ended = vibe("permissions", "explain", "bash", "ls; rm x")
    assert (ended.code, ended.out.count("\n")) == (0, 1)
    assert ended.out.startswith("ask (permission): ")
    assert "'rm x' is not on the allow list" in ended.out


def test_auto_approve_moves_questions_but_no_denial(vibe: VibeCommand) -> None:
    assert explain(vibe, "bash", "rm x", "--auto-approve")["decision"] == "allow"
    assert explain(vibe, "bash", "rm x", "--agent", "auto-approve")["decision"] == "allow"
    assert explain(vibe, "bash", "vim x", "--auto-approve")["decision"] == "deny"
    assert explain(vibe, "bash", "sudo rm x", "--auto-approve")["decision"] == "ask"


def test_settings_count(vibe: VibeCommand) -> None:
    vibe.configure('[tools.bash]\nread_only_sandbox = "off"\nallowlist = ["npm test"]\ndenylist = ["git push"]\n')
    assert explain(vibe, "bash", "npm test -- -u")["decision"] == "allow"
    assert explain(vibe, "bash", "git push")["decision"] == "deny"
    assert explain(vibe, "bash", "ls")["decision"] == "ask"


def test_a_line_is_denied_what_the_lists_of_another_tool_deny(vibe: VibeCommand) -> None:
    (vibe.workdir / "private").mkdir()
    (vibe.workdir / "private" / "a.txt").write_text("x")
    vibe.configure('[tools.read_file]\ndenylist = ["private/*"]\n')
    assert explain(vibe, "bash", "cat private/a.txt")["decision"] == "deny"


def test_an_unknown_tool_or_agent_is_bad_usage(vibe: VibeCommand) -> None:
    for words in (
        ("bsh", "ls"),
        ("bash", "ls", "--agent", "nobody"),
        ("bash", '{"comand": "ls"}'),
        ("bash", "ls", "--agent", "plan"),
    ):
        ended = vibe("permissions", "explain", *words)
        assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1), words


def test_lines_are_answered_one_by_one_and_bad_ones_too(vibe: VibeCommand) -> None:
    with subprocess.Popen(
        [str(VIBE), "permissions", "explain", "bash", "-"],
        cwd=vibe.workdir,
        env=vibe.variables(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line, decision in (
            ('"ls"', "allow"),
            ('"rm\\nx"', "ask"),
            ("[]", "deny"),
            ("{", "deny"),
            ("[" * 100_000, "deny"),
            ('{"command": "vim"}', "deny"),
        ):
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            told = json.loads(process.stdout.readline())
            assert (told["decision"], set(told)) == (decision, {"decision", "rule", "reason"}), line
        process.stdin.close()
        assert process.wait(20) == 0


def test_the_loop_decides_the_same(vibe: VibeCommand) -> None:
    vibe.replay({
        "agents": {
            "main": {"turns": [{"tool_calls": [{"name": "bash", "arguments": {"command": "rm x"}}]}, {"text": "no"}]}
        }
    })
    record = vibe("-p", "go", "--output", "json").document
    assert explain(vibe, "bash", "rm x")["reason"] in record["denied"][0]["reason"]


def test_doctor_tells_what_there_is_and_names_keys_only(vibe: VibeCommand) -> None:
    vibe.environ["MISTRAL_API_KEY"] = "SECRET-key"
    ended = vibe("doctor", "--output", "json")
    found = {row["subject"]: row for row in ended.document["findings"]}
    assert ended.code == 0
    assert {"version", "home", "config", "model", "keys", "sandbox", "ripgrep", "git", "bus"} <= set(found)
    assert "MISTRAL_API_KEY" in found["keys"]["detail"]
    assert "SECRET" not in ended.out
    assert not vibe.home.exists()


def test_doctor_fails_where_runs_would(vibe: VibeCommand) -> None:
    vibe.configure("[sandbox]\nmode = 3\n")
    ended = vibe("doctor")
    assert ended.code == 3
    assert "FAIL config" in ended.out
    assert "sandbox" in ended.out


def test_doctor_says_why_there_is_no_sandbox(vibe: VibeCommand) -> None:
    vibe.environ["MISTRAL_API_KEY"] = "x"
    vibe.configure('[sandbox]\nmode = "off"\n')
    ended = vibe("doctor")
    assert ended.code == 0
    assert "none ([sandbox] mode is off)" in ended.out


@pytest.mark.parametrize(
    "line",
    [
        "rev .git/config",
        "base64 < .git/config",
        "cat .git/c*",
        "grep -r x .",
        "grep -r x .git",
        "head -5 in/.git/config",
    ],
)
def test_settings_of_git_that_hold_a_token_are_read_only_with_a_yes(vibe: VibeCommand, line: str) -> None:
    vibe.environ["VIBE_SANDBOX__MODE"] = "off"
    for place in (".git", "in/.git"):
        (vibe.workdir / place).mkdir(parents=True)
        config = vibe.workdir / place / "config"
        config.write_text('[remote "o"]\n\turl = https://host/a.git\n')
    assert vibe("permissions", "explain", "bash", line).out.startswith("allow")

    config.write_text('[remote "o"]\n\turl = https://me:token@host/a.git\n')
    (vibe.workdir / ".git" / "config").write_text(config.read_text())

    assert vibe("permissions", "explain", "bash", line).out.startswith("ask")
