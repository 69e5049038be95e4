"""Closed or full streams, homes that can't be written, odd locales and signals, and the result that the caller gets.

Covers ``vibe.cli``.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import VIBE, Finished, VibeCommand, command_step, interrupt, leftovers
from tests.e2e.test_prompt import turns
from tests.fakes.terminal import Terminal
from tests.fakes.waiting import until

WritePlan = Callable[..., str]

EXECUTES = True  # what a process meets when it starts is what these are about
GONE = "mkfifo gone; exec 3<>gone 4>gone 3<&-"
"""File 4 is a pipe that nobody reads, so that the result does not depend on how much a pipe holds for a slow reader."""

SLOW = "sleep 600 & echo $! > pid; touch started; wait"


def shell(vibe: VibeCommand, line: str) -> Finished:
    """Run a shell line in which ``vibe`` is the command."""
    return vibe.run(["bash", "-o", "pipefail", "-c", line])


@pytest.fixture
def plan(write_plan: WritePlan) -> str:
    """Write a plan of twenty steps, whose output is longer than what a reader takes before it leaves."""
    return write_plan(*(command_step(f"s{number}", f"echo {number} >> log") for number in range(20)))


@pytest.mark.parametrize("output", ["text", "streaming"])
def test_a_plan_goes_on_when_its_reader_leaves(vibe: VibeCommand, plan: str, output: str) -> None:
    ended = shell(vibe, f"vibe plan run --output {output} {plan} | head -1")

    assert (ended.code, ended.err) == (0, "")
    assert ended.out.count("\n") == 1
    assert len((vibe.workdir / "log").read_text().split()) == 20


def test_a_failure_is_not_hidden_by_a_reader_that_leaves(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(command_step("a", "touch ran; exit 7"))

    ended = shell(vibe, f"{GONE}; vibe plan run {plan} >&4")

    assert (ended.code, ended.out) == (1, "")
    assert (vibe.workdir / "ran").exists()


def test_following_events_ends_with_its_reader(vibe: VibeCommand, plan: str) -> None:
    vibe("plan", "run", plan)

    ended = shell(vibe, f"{GONE}; vibe events tail {vibe.plan_ids()[0]} --from 1 >&4")

    assert (ended.code, ended.err) == (0, "")


@pytest.mark.parametrize(("closed", "code"), [("<&-", 0), (">&-", 3), ("2>&-", 0), ("<&- >&- 2>&-", 3)])
def test_closed_streams_stop_no_work(vibe: VibeCommand, plan: str, closed: str, code: int) -> None:
    vibe.replay(turns({"text": "fine"}))

    assert shell(vibe, f"vibe plan run {plan} {closed}").code == code
    assert len((vibe.workdir / "log").read_text().split()) == 20
    prompt = shell(vibe, f"vibe -p go {closed}")
    assert prompt.code == code
    assert "Traceback" not in prompt.err


@pytest.mark.parametrize("words", ["--version", "--help", "plan --help", "plan list", "-p go"])
def test_what_a_closed_stdout_could_not_say_is_an_error(vibe: VibeCommand, words: str) -> None:
    vibe.replay(turns({"text": "fine"}))

    ended = shell(vibe, f"vibe {words} >&-")

    assert (ended.code, ended.out) == (3, "")
    assert (
        ended.err == "vibe: standard output can't be written (it is closed): send it to another place, or free space\n"
    )


@pytest.mark.parametrize(
    "words",
    ["--version", "--help", "plan run --help", "-p go", "plan list", "plan run plan.json", "-p go --output json"],
)
def test_output_that_finds_no_room_is_an_error(vibe: VibeCommand, plan: str, words: str) -> None:
    assert plan == "plan.json"
    vibe.replay(turns({"text": "fine"}))

    ended = shell(vibe, f"vibe {words} > /dev/full")

    assert (ended.code, ended.err.count("\n")) == (3, 1), ended.err
    assert "No space left" in ended.err


@pytest.mark.parametrize("output", ["text", "json", "streaming"])
def test_a_result_that_finds_no_room_is_told_whatever_it_says(
    vibe: VibeCommand, write_plan: WritePlan, output: str
) -> None:
    plan = write_plan(command_step("a", "exit 1"))

    ended = shell(vibe, f"vibe plan run {plan} --output {output} > /dev/full")

    assert (ended.code, ended.err.count("No space left")) == (1, 1), ended.err


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("vibe-acp --version >&-", 3, "it is closed"),
        ("vibe-acp --help > /dev/full", 3, "No space left"),
        ("vibe-acp nonsense", 2, "unknown argument 'nonsense'"),
        ("vibe-acp nonsense 2>&-", 2, ""),
        ("VIBE_LOG_LEVEL=loud vibe-acp", 2, "VIBE_LOG_LEVEL is 'loud'"),
        ("ulimit -n 8; vibe-acp", 3, "Too many open files"),
        ("ulimit -n 5; vibe -p go --detach", 3, "Too many open files"),
        ("vibe plan list --output $(printf 'x%.0s' {1..5000})", 2, f"unknown --output '{'x' * 80}'"),
        ("VIBE_LOG_MAX_BYTES=$(printf '9%.0s' {1..5000}) vibe plan list", 2, "it must be a number of bytes"),
    ],
)
def test_what_a_command_cannot_begin_without_is_one_sentence(
    vibe: VibeCommand, line: str, code: int, said: str
) -> None:
    ended = shell(vibe, line)

    assert (ended.code, ended.err.count("\n")) == (code, 1 if said else 0), ended.err
    assert said in ended.err


def test_errors_that_find_no_room_change_no_exit_code(vibe: VibeCommand) -> None:
    assert shell(vibe, "vibe plan run nowhere.json 2> /dev/full").code == 2


def test_a_reader_that_went_away_makes_no_failure_a_success(vibe: VibeCommand) -> None:
    (vibe.workdir / "bad.json").write_text("[]")

    def leave() -> None:
        unread, written = os.pipe()
        os.close(unread)
        os.dup2(written, 1)

    ended = vibe.run([str(VIBE), "plan", "validate", "bad.json", "--output", "json"], before=leave)

    assert (ended.code, ended.err) == (2, "")


def test_input_that_is_no_utf8_is_answered_whatever_the_locale_says(vibe: VibeCommand) -> None:
    vibe.environ["PYTHONIOENCODING"] = "utf-8:strict"

    ended = shell(vibe, r"""printf '"\xff"\n"ls"\n' | vibe permissions explain bash -""")

    assert (ended.code, ended.err) == (0, "")
    assert [json.loads(answer)["rule"] for answer in ended.out.splitlines()] == ["invalid", "allowlist"]


@pytest.mark.parametrize("times", [1, 2])
def test_a_prompt_that_is_terminated_before_it_begins_says_so(vibe: VibeCommand, tmp_path: Path, times: int) -> None:
    vibe.replay(turns({"text": "never"}))
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text(
        f'#!/bin/sh\ncase "$*" in *" config "*) exec {shutil.which("git")} "$@" ;; esac\n'
        f"touch {tmp_path}/begun\nexec sleep 60\n"
    )
    slow.chmod(0o755)
    subprocess.run(["git", "init", "-q", str(vibe.workdir)], check=True)
    vibe.environ["PATH"] = f"{slow.parent}{os.pathsep}{os.environ['PATH']}"

    process = vibe.start("-p", "go", "--output", "json")
    until((tmp_path / "begun").exists)
    for _ in range(times):
        interrupt(process, signal.SIGTERM)
    out, err = process.communicate(timeout=60)

    record = json.loads(out)
    assert (process.returncode, record["exit_code"], record["outcome"], err) == (143, 143, "interrupted", b"")


@pytest.mark.parametrize("module", ["vibe.cli.environment", "vibe.cli.run", "vibe.cli.grammar"])
def test_ctrl_c_while_modules_are_loaded_says_nothing(vibe: VibeCommand, tmp_path: Path, module: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}:\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting())\n"
    )
    vibe.environ["PYTHONPATH"] = str(tmp_path)

    words = ("plan", "--help") if module == "vibe.cli.grammar" else ("plan", "list")
    assert vibe.process(*words) == Finished(130, "", "")


def test_a_directory_that_is_gone_is_said_if_it_is_needed(vibe: VibeCommand, plan: str) -> None:
    vibe.replay(turns({"text": "fine"}))

    def within(words: str) -> Finished:
        return shell(vibe, f"mkdir gone; cd gone; rmdir ../gone; vibe {words}")

    for words in ("-p go", f"plan run ../{plan}", "trust add", "doctor"):
        ended = within(words)
        assert (ended.code, ended.err) == (
            3,
            "vibe: the current folder is gone: change to another, or name one\n",
        ), words
    for words in (
        "plan list",
        f"-p go --workdir {vibe.workdir}",
        f"plan run {vibe.workdir}/{plan} --workdir {vibe.workdir}",
    ):
        ended = within(words)
        assert (ended.code, ended.err) == (0, ""), words


def test_no_home_variable_is_needed(vibe: VibeCommand, plan: str) -> None:
    assert shell(vibe, f"unset HOME; vibe plan run {plan}").code == 0
    ended = shell(vibe, "unset VIBE_HOME; HOME=/nowhere/at/all vibe plan list")
    assert ended.code == 0


@pytest.mark.parametrize("environ", [{"LANG": "C", "LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}, {"LANG": "de_DE"}])
def test_any_locale_writes_utf8(vibe: VibeCommand, write_plan: WritePlan, environ: dict[str, str]) -> None:
    vibe.environ.update(environ)
    vibe.replay(turns({"text": "grüße ✓"}))

    assert vibe.process("-p", "go").out == "grüße ✓\n"
    assert "✓ a" in vibe.process("plan", "run", write_plan(command_step("a", "echo ü"))).out


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": ""}])
def test_plain_output_has_no_escapes(vibe: VibeCommand, plan: str, environ: dict[str, str]) -> None:
    vibe.environ.update(environ)

    ended = vibe.process("plan", "run", plan)

    assert ended.code == 0
    assert "\x1b" not in ended.out + ended.err


def test_a_prompt_of_a_megabyte_comes_through_a_pipe(vibe: VibeCommand) -> None:
    vibe.replay(turns({"text": "read"}))
    with (vibe.home / "config.toml").open("a") as config:
        config.write("context_size = 1_000_000\n")
    prompt = "word " * 200_000

    record = vibe.process("-p", "--output", "json", stdin=prompt).document

    transcript = vibe.home / "logs" / "session" / record["session_id"] / "messages.jsonl"
    assert record["result"] == "read"
    assert json.loads(transcript.read_text().splitlines()[0])["content"] == prompt.strip()


@pytest.mark.parametrize("line", [r"vibe -p $'hi \xff\xfe'", r"printf 'hi \xff\xfe' | vibe -p"])
def test_a_prompt_that_is_no_utf8_is_answered(vibe: VibeCommand, line: str) -> None:
    vibe.replay(turns({"text": "read"}))

    ended = shell(vibe, line)

    assert (ended.code, ended.out, ended.err) == (0, "read\n", "")


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("memory add", "TEXT"),
        ("config set active_model", "VALUE"),
        ("mcp add srv", "URL|COMMAND"),
        ("mcp add srv https://localhost/mcp --env", "--env"),
        ("plan new", "GOAL"),
        ("plan steer latest step", "TEXT"),
        ("session rename latest", "TITLE"),
        ("cluster worker tcp://127.0.0.1:1 --label", "--label"),
    ],
)
def test_a_text_that_is_no_utf8_is_one_sentence_and_changes_nothing(vibe: VibeCommand, line: str, what: str) -> None:
    vibe.replay(turns({"text": "fine"}))
    before = sorted(vibe.home.rglob("*")), (vibe.home / "config.toml").read_bytes()

    ended = shell(vibe, rf"vibe {line} $'os=\xff\xfe'")

    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert f"argument {what}: must be UTF-8, not '" in ended.err
    assert (sorted(vibe.home.rglob("*")), (vibe.home / "config.toml").read_bytes()) == before


WORDS = ("doctor", "-p go", "plan run plan.json", "mcp list", "config edit", "permissions explain bash ls")
LACKING = {
    "memory": "ulimit -v 250000",
    "files": "ulimit -n 12",
}


@pytest.mark.parametrize("lacking", LACKING)
def test_what_the_machine_lacks_is_said_and_is_no_defect(
    vibe: VibeCommand, write_plan: WritePlan, lacking: str
) -> None:
    write_plan(command_step("a", "true"))
    vibe.replay(turns({"text": "read"}))
    for words in WORDS:
        line = f"cd {vibe.workdir}; {LACKING[lacking]} 2>/dev/null; exec {VIBE} {words}"

        ended = subprocess.run(["bash", "-c", line], env=vibe.variables(), capture_output=True, text=True, check=False)

        assert "internal error" not in ended.stderr, f"{words}: {ended.stderr}"
        assert "Traceback" not in ended.stderr
        assert ended.returncode in {0, 3}, f"{words}: {ended.stderr}"
        assert ended.returncode == 0 or ended.stderr.startswith("vibe: ") or words == "doctor", ended.stderr


@pytest.mark.parametrize("words", [["plan", "run", "--output", "json", "plan.json"], ["-p", "go", "--output", "json"]])
def test_a_disk_that_fills_up_ends_the_run_with_a_record(
    vibe: VibeCommand, write_plan: WritePlan, words: list[str]
) -> None:
    call = {"name": "bash", "arguments": {"command": "seq 200000; sleep 0.1"}}
    vibe.replay(turns(*[{"text": "x" * 3_000, "tool_calls": [call]}] * 30, {"text": "done"}))
    write_plan(*(command_step(f"s{n}", f"seq {n} 100000") for n in range(60)))

    ended = vibe.run(
        [str(VIBE), *(["--yolo"] if words[0] == "-p" else []), *words],
        before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000)),
    )

    assert ended.code == 3, ended.err
    assert ended.document["exit_code"] == 3
    assert "Traceback" not in ended.err
    assert "internal error" not in ended.err
    assert "no reason given" not in ended.err


def test_a_disk_that_fills_up_in_a_step_of_a_process_pauses_the_plan(vibe: VibeCommand, write_plan: WritePlan) -> None:
    calls = [{"name": "bash", "arguments": {"command": f"echo {n}"}} for n in range(30)]
    talk = [{"text": "x" * 3_000, "tool_calls": [call]} for call in calls]
    vibe.replay({"agents": {"work": {"turns": [*talk, {"text": "done"}]}}})
    write_plan({"id": "work", "title": "Work", "mode": "research", "max_turns": 50, "max_tokens": 1_000_000})
    words = ["plan", "run", "--executor", "process", "--auto-approve", "--output", "json", "plan.json"]

    ended = vibe.run(
        [str(VIBE), *words],
        before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, resource.RLIM_INFINITY)),
    )

    record = ended.document
    assert (ended.code, record["reason"]) == (3, "environment"), ended.err
    assert [step["status"] for step in record["steps"]] in (["pending"], [])
    assert "ulimit -f" in record["result"] or "space" in record["result"]
    again = vibe("plan", "resume", "--output", "json", record["plan_id"]).document
    assert (again["outcome"], again["steps"][0]["attempts"]) == ("completed", 1)


def test_steps_are_no_wider_than_the_files_that_may_be_open(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(*(command_step(f"s{n}", "sleep 0.5") for n in range(60)), max_parallel_steps=60)

    ended = shell(vibe, f"ulimit -n 160; vibe plan run --output json {plan}")

    assert ended.code == 0, ended.err
    assert {step["status"] for step in ended.document["steps"]} == {"completed"}
    assert "60: the limit of open files is too low; raise it with `ulimit -n`" in ended.err


def test_a_soft_limit_of_open_files_is_raised(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(command_step("a", "ulimit -n"), max_parallel_steps=60)

    ended = shell(vibe, f"ulimit -Sn 100; vibe plan run --output json {plan}")

    assert (ended.code, ended.err) == (0, "")
    assert int(ended.document["steps"][0]["summary"]) > 100


@pytest.mark.parametrize("words", ["-p go", "plan run ../plan.json", "plan new goal", "trust add", "trust add ."])
@pytest.mark.parametrize("place", ["workspace", "home"])
def test_a_folder_whose_name_is_no_utf8_is_one_sentence(
    vibe: VibeCommand, write_plan: WritePlan, words: str, place: str
) -> None:
    vibe.replay(turns({"text": "fine"}))
    write_plan(command_step("a", "true"))
    kept = sorted(vibe.home.rglob("*"))
    variable = r"VIBE_HOME=$PWD/$'h\xff'" if place == "home" else ""
    folder = "." if place == "home" else r"$'w\xff'"

    ended = shell(vibe, rf"mkdir -p $'w\xff' w; cd w; cd ../{folder}; {variable} vibe {words}")

    assert (ended.code, ended.out) == (3 if place == "home" else 2, "")
    assert ended.err.count("\n") == 1
    assert "\\xff" in ended.err
    assert "is not UTF-8" in ended.err
    assert sorted(vibe.home.rglob("*")) == kept


def test_a_plan_file_whose_name_is_no_utf8_is_run(vibe: VibeCommand, write_plan: WritePlan) -> None:
    write_plan(command_step("a", "true"))

    ended = shell(
        vibe, r"mv plan.json $'p\xff.json'; vibe plan run $'p\xff.json' && vibe plan run --resume $'p\xff.json'"
    )

    assert (ended.code, ended.err) == (0, "")


@pytest.mark.parametrize("words", ["-p go", "doctor", "plan list", "events list", "setup"])
@pytest.mark.parametrize("below", ["", "/below/it"])
def test_a_home_that_is_a_file_is_one_sentence(vibe: VibeCommand, tmp_path: Path, words: str, below: str) -> None:
    (tmp_path / "file").write_text("")

    ended = shell(vibe, f"VIBE_HOME={tmp_path}/file{below} vibe {words}")

    assert (ended.code, ended.out) == (3, "")
    assert ended.err == f"vibe: '{tmp_path}/file' is a file: set VIBE_HOME to a folder for vibe\n"


@pytest.mark.parametrize("words", ["-p go", "plan run plan.json"])
def test_too_few_open_files_are_no_matter_of_disk_space(vibe: VibeCommand, write_plan: WritePlan, words: str) -> None:
    write_plan(command_step("a", "true"))
    vibe.replay(turns({"text": "fine"}))

    ended = [shell(vibe, f"ulimit -n {most}; vibe {words}") for most in range(9, 22, 2)]

    told = [line for each in ended for line in each.err.splitlines() if line.startswith("vibe: ")]
    advice = "raise the limit of open files (`ulimit -n`) or run fewer steps in parallel"
    assert set(told) == {f"vibe: the system can't serve that now: Too many open files: {advice}"}


def test_names_that_python_reads_as_ascii_are_one_sentence(vibe: VibeCommand) -> None:
    vibe.environ.update(LC_ALL="C", PYTHONUTF8="0")

    ended = shell(vibe, "mkdir é; cd é; vibe plan list")

    assert (ended.code, ended.out) == (3, "")
    assert ended.err == "vibe: file names are limited to ASCII here: unset PYTHONUTF8, or set LC_ALL=C.UTF-8\n"


@pytest.mark.parametrize("place", ["/nowhere", "/proc", "/dev/null", "."])
def test_temporary_files_are_kept_elsewhere_if_tmpdir_takes_none(vibe: VibeCommand, place: str) -> None:
    call = {"name": "bash", "arguments": {"command": "mktemp"}}
    vibe.replay(turns({"tool_calls": [call]}, {"text": "fine"}))
    vibe.environ["TMPDIR"] = place

    edited = shell(vibe, "EDITOR=true vibe config edit")
    used = shell(vibe, "vibe --auto-approve --output streaming -p go")

    assert (edited.code, edited.err) == (0, "")
    assert [line["status"] for line in used.lines if line["type"] == "tool.result"] == ["ok"]


def on_terminal(vibe: VibeCommand, *words: str, before: str = "") -> tuple[subprocess.Popen[bytes], int]:
    """Start ``vibe`` as the shell of a terminal would, and return the person's end of the terminal."""
    master, slave = os.openpty()
    process = subprocess.Popen(
        ["setsid", "--ctty", "bash", "-c", f'{before} exec "$@"', "bash", str(VIBE), *words],
        cwd=vibe.workdir,
        env=vibe.variables(),
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    vibe.running.append(process)
    return process, master


def test_a_terminal_that_is_closed_pauses_its_plan(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(command_step("a", SLOW), command_step("b", "true", depends_on=["a"]))
    process, terminal = on_terminal(vibe, "plan", "run", plan)
    until((vibe.workdir / "started").exists)

    os.close(terminal)

    assert process.wait(120) == 129
    (plan_id,) = vibe.plan_ids()
    assert vibe("plan", "status", "--output", "json", plan_id).document["status"] == "paused"
    assert leftovers(vibe.workdir) == []


def test_under_nohup_a_run_outlives_its_terminal(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(command_step("a", "touch started; while [ ! -e go ]; do sleep 0.05; done"))
    process, terminal = on_terminal(vibe, "plan", "run", plan, before="exec < /dev/null > out 2>&1; trap '' HUP;")
    until((vibe.workdir / "started").exists)

    os.close(terminal)
    process.send_signal(signal.SIGHUP)
    (vibe.workdir / "go").touch()

    assert process.wait(120) == 0


@pytest.mark.parametrize(("which", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
@pytest.mark.parametrize("output", ["json", "streaming"])
def test_a_signal_in_a_tool_call_leaves_a_record_and_nothing_running(
    vibe: VibeCommand, which: signal.Signals, code: int, output: str
) -> None:
    vibe.replay(turns({"tool_calls": [{"name": "bash", "arguments": {"command": SLOW}}]}, {"text": "never"}))
    process = vibe.start("--yolo", "--output", output, "-p", "go")
    until((vibe.workdir / "started").exists)

    process.send_signal(which)
    out, err = process.communicate(timeout=120)

    record = json.loads(out if output == "json" else out.splitlines()[-1])
    assert (process.returncode, record["exit_code"], record["outcome"]) == (code, code, "interrupted"), err
    until(lambda: not leftovers(vibe.workdir))
    transcript = vibe.home / "logs" / "session" / record["session_id"] / "messages.jsonl"
    messages = [json.loads(line) for line in transcript.read_text().splitlines()]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "user"]
    assert messages[2]["status"] == "cancelled"


@pytest.mark.parametrize(("which", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_in_the_middle_of_an_answer_leaves_a_record(
    vibe: VibeCommand, which: signal.Signals, code: int
) -> None:
    vibe.replay(turns({"text": "word " * 4_000, "chunk_size": 5, "delay_seconds": 600}))
    process = vibe.start("--output", "streaming", "-p", "go")
    assert process.stdout is not None
    lines: list[dict[str, Any]] = []
    while not lines or lines[-1]["type"] != "assistant.delta":
        lines.append(json.loads(process.stdout.readline()))

    process.send_signal(which)
    out, err = process.communicate(timeout=120)

    record = json.loads(out.splitlines()[-1])
    assert (process.returncode, record["type"], record["outcome"]) == (code, "result", "interrupted"), err
    assert err == b""


def test_an_answer_on_a_terminal_cannot_move_the_cursor(vibe: VibeCommand) -> None:
    answer = "fine\x1b[2J\x1b]0;title\x07\n\tindented \u202e end"
    vibe.replay(turns({"text": answer}))
    with Terminal() as terminal:
        ended = subprocess.run(
            [str(VIBE), "-p", "go"], cwd=vibe.workdir, env=vibe.variables(), stdin=subprocess.DEVNULL,
            stdout=terminal.slave, timeout=180, check=False, start_new_session=True,
        )  # fmt: skip
        until(lambda: "end\r\n" in terminal.sent())
        shown = terminal.sent()

    assert ended.returncode == 0
    assert shown.replace("\r\n", "\n").expandtabs() == "fine\n        indented  end\n"
    assert vibe.process("-p", "go").out == answer + "\n", "a pipe gets what the model said"


def test_the_demonstration_works_if_tmpdir_is_relative(vibe: VibeCommand) -> None:
    vibe.environ["TMPDIR"] = "."

    ended = vibe.process("plan", "run", "demo")

    assert (ended.code, ended.err) == (0, "")
