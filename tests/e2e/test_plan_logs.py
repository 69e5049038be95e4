"""Covers ``vibe.app.plan``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import VibeCommand, command_step
from tests.fakes.model_server import ModelServer, Reply
from tests.fakes.waiting import until

WritePlan = Callable[..., str]


def log_of(vibe: VibeCommand, step: str) -> Path:
    return next((vibe.home / "plans").glob(f"*/steps/{step}/output.log"))


def test_all_that_commands_and_checks_printed_can_be_read_later(vibe: VibeCommand, write_plan: WritePlan) -> None:
    vibe.environ |= {"DEPLOY_TOKEN": "s3cr3t-of-mine"}
    plan = write_plan(
        command_step("long", "seq 1 20000; echo $DEPLOY_TOKEN"),
        command_step("bad", "echo built", depends_on=["long"], verify=["echo looking; echo 'not ok 3 - it'; false"]),
    )
    assert vibe("plan", "run", plan).code == 1

    long = vibe("plan", "logs", "latest", "long").out
    bad = vibe("plan", "logs", vibe.plan_ids()[0][:3], "bad").out
    whole = vibe("plan", "logs", "latest").out

    lines = long.splitlines()
    assert lines[1] == "$ seq 1 20000; echo $DEPLOY_TOKEN"
    assert lines[2:20_002] == [str(n) for n in range(1, 20_001)]
    assert "s3cr3t-of-mine" not in log_of(vibe, "long").read_text()
    assert "built\n" in bad
    assert "looking\nnot ok 3 - it\n" in bad
    assert "== exited with 1" in bad
    assert whole == f"### long\n{long}### bad\n{bad}"


def test_of_a_line_that_was_rewritten_the_last_is_read_later(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(command_step("s", r"printf '\r%d %%' 1 2 3; printf '\rdone\r\n\033[31mred\f\n'"))
    vibe("plan", "run", plan)

    assert vibe("plan", "logs", "latest", "s").out.splitlines()[2:4] == ["done", "red"]


def test_what_a_failed_check_said_is_in_summary_record_and_report(vibe: VibeCommand, write_plan: WritePlan) -> None:
    check = "echo 'ok 1'; echo 'not ok 2 - subtracts'; echo '# duration_ms 318'; exit 1"
    ended = vibe("plan", "run", write_plan(command_step("s", "true", verify=[check])), "--report", "r.json")

    assert "exited with 1: not ok 2 - subtracts" in ended.out
    assert f"(all of it: vibe plan logs {vibe.plan_ids()[0]} s)" in ended.out
    step = json.loads((vibe.workdir / "r.json").read_text())["steps"][0]
    assert step["printed"] == "ok 1\nnot ok 2 - subtracts\n# duration_ms 318"
    for form in ("md", "html"):
        assert "not ok 2 - subtracts" in vibe("plan", "report", "latest", "--format", form).out


def test_logs_follow_a_plan_until_it_ends(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(command_step("s", "echo first; while [ ! -e go ]; do sleep 0.05; done; echo last"))
    running = vibe.start("plan", "run", plan)
    until(lambda: any((vibe.home / "plans").glob("*/steps/s/output.log")))
    following = vibe.start("plan", "logs", "latest", "--follow")
    assert following.stdout is not None
    seen = [following.stdout.readline() for _ in range(4)]
    (vibe.workdir / "go").touch()

    assert running.wait(60) == 0
    rest = following.stdout.read()
    assert following.wait(60) == 0
    assert seen[0] == b"### s\n"
    assert seen[3] == b"first\n"
    assert rest.startswith(b"last\n== exited with 0")


def test_logs_that_nobody_reads_are_followed_no_further(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(command_step("s", "echo first; while [ ! -e go ]; do sleep 0.05; done"))
    running = vibe.start("plan", "run", plan)
    until(lambda: any((vibe.home / "plans").glob("*/steps/s/output.log")))
    following = vibe.start("plan", "logs", "latest", "--follow")
    assert following.stdout is not None
    assert following.stdout.readline() == b"### s\n"
    following.stdout.close()

    assert following.wait(60) == 0
    assert running.poll() is None
    (vibe.workdir / "go").touch()
    assert running.wait(60) == 0


def test_logs_of_a_step_that_is_none_name_those_there_are(vibe: VibeCommand, write_plan: WritePlan) -> None:
    vibe("plan", "run", write_plan(command_step("s", "true")))

    ended = vibe("plan", "logs", "latest", "t")

    assert ended.code == 2
    assert "has no step 't'; its steps: s" in ended.err


def test_output_is_shown_as_it_comes_where_it_is_asked_for(vibe: VibeCommand, write_plan: WritePlan) -> None:
    ended = vibe("plan", "run", "--show-output", write_plan(command_step("s", "echo one; echo two >&2")))

    assert "[s] | one\n" in ended.out
    assert "[s] | two\n" in ended.out


KEY_LINE = "MIIEpAIBAAKCAQEA1234abcdefgh"
PRINTED = [
    "-----BEGIN RSA PRIVATE KEY-----",
    *[KEY_LINE] * 4,
    "-----END RSA PRIVATE KEY-----",
    "one line",
    "other line",
]
SLOWLY = (
    """while IFS= read -r line; do echo "$line"; sleep 0.25; done < printed; printf 'token: '; sleep 1; echo hunter22"""
)


@pytest.mark.parametrize("executor", ["local", "process"])
@pytest.mark.parametrize("kind", ["command", "check"])
def test_a_secret_is_masked_wherever_its_output_is_cut_into_events(
    vibe: VibeCommand, write_plan: WritePlan, executor: str, kind: str
) -> None:
    (vibe.workdir / "printed").write_text("\n".join((*PRINTED, "")))
    vibe.environ |= {"DEPLOY_SECRET": "one line\nother line"}
    command, checks = ("true", [SLOWLY]) if kind == "check" else (SLOWLY, [])

    ended = vibe.process(
        "plan", "run", write_plan(command_step("s", command, verify=checks)), "--output", "streaming",
        "--executor", executor,
    )  # fmt: skip

    shown = "".join(line["text"] for line in ended.lines if line["type"] == "tool.stream")
    assert ended.code == 0
    for text in (shown, log_of(vibe, "s").read_text().replace(SLOWLY, ""), ended.out.replace("echo hunter22", "")):
        for secret in (KEY_LINE, "one line", "other line", "hunter22"):
            assert secret not in text
    assert shown.count("[redacted]") == 3  # the key, the value of two lines, and the token


def test_a_model_is_told_what_a_check_printed_without_secrets(
    vibe: VibeCommand, write_plan: WritePlan, server: ModelServer
) -> None:
    (vibe.workdir / "printed").write_text("a line\ns3cr3t-of-mine\n")
    vibe.environ |= {"DEPLOY_TOKEN": "s3cr3t-of-mine"}
    server.enqueue(*[Reply(text="done")] * 3)
    step = {"id": "s", "title": "S", "mode": "code", "prompt": "Go.", "writes": ["a.txt"]}

    ended = vibe("plan", "run", write_plan({**step, "verify": ["cat printed; false"]}), "--auto-approve")

    told = [request.body["messages"][-1]["content"] for request in server.requests]
    assert ended.code == 1
    assert "a line\n[redacted]" in told[1]
    assert "s3cr3t-of-mine" not in f"{told}{ended}"
