"""The examples in the documentation run as shown.

Covers ``vibe.cli.commands``.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from planner.plan.loader import load_plan
from tests.e2e.conftest import REPOSITORY, VibeCommand, command_step
from vibe.cli.grammar import read_words
from vibe.cli.parser import TextRequested
from vibe.core.config.models import VibeConfig
from vibe.core.tools.discovery import ToolSources
from vibe.core.tools.manager import ToolManager

WritePlan = Callable[..., str]

NODE = shutil.which("node")
SHELLS = frozenset({"sh", "bash", "console"})
ENDS = frozenset({"|", ">", "<", "&", ";", "&&"})
BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
DOCUMENTS = sorted([REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md")])
WAITING = command_step("wait", "touch started; while [ ! -e go ]; do sleep 0.05; done")


@dataclass(frozen=True)
class Block:
    """A fenced block of a document."""

    language: str
    text: str

    @property
    def opening(self) -> str:
        """The first line, without its comment mark."""
        return self.text.partition("\n")[0].lstrip("#/ ")


def blocks(name: str, language: str = "") -> list[Block]:
    text = (REPOSITORY / name).read_text(encoding="utf-8")
    found = [Block(match["language"], match["text"]) for match in BLOCK.finditer(text)]
    return [block for block in found if not language or block.language == language]


def tool_examples() -> list[tuple[str, str, dict[str, Any], str]]:
    """Return each tool in the guide: its file, its source, the call that is shown and what the model reads."""
    found = blocks("docs/guide/custom-tools.md")
    return [
        (block.opening, block.text, json.loads(found[place + 1].text), found[place + 2].text.rstrip("\n"))
        for place, block in enumerate(found)
        if block.language == "python"
    ]


def plan_examples() -> list[tuple[str, str]]:
    """Return every plan shown in the documentation."""
    shown = [(path.relative_to(REPOSITORY).as_posix(), path) for path in DOCUMENTS]
    return [(name, block.text) for name, _ in shown for block in blocks(name, "json") if '"steps"' in block.text]


def wait_for_start(vibe: VibeCommand, run: subprocess.Popen[bytes], seconds: float = 120) -> None:
    """Wait until the run has come to the step that waits."""
    deadline = time.monotonic() + seconds
    while not (vibe.workdir / "started").exists():
        assert run.poll() is None, run.communicate()
        assert time.monotonic() < deadline, "the waiting step never started"
        time.sleep(0.01)


def call_of(vibe: VibeCommand, call: dict[str, Any], *flags: str) -> dict[str, Any]:
    """Return the result of a tool that a scripted model calls."""
    vibe.replay({"agents": {"main": {"turns": [{"tool_calls": [call]}, {"text": "done"}]}}})
    lines = vibe.process(*flags, "--trust", "--output", "streaming", "-p", "go").lines
    return next(line for line in lines if line["type"] == "tool.result")


def test_the_guide_shows_all_three_shapes_of_a_tool() -> None:
    names = [file for file, *_ in tool_examples()]

    assert names == [".vibe/tools/shout.py", ".vibe/tools/count_lines.py", ".vibe/tools/countdown.py"]


@pytest.mark.parametrize(("file", "source", "call", "read"), tool_examples(), ids=["short", "models", "stream"])
def test_a_tool_of_the_guide_does_what_the_guide_says(
    vibe: VibeCommand, file: str, source: str, call: dict[str, Any], read: str
) -> None:
    (vibe.workdir / file).parent.mkdir(parents=True)
    (vibe.workdir / file).write_text(source)
    (vibe.workdir / "poem.txt").write_text("one\ntwo\n")

    result = call_of(vibe, call, "--auto-approve")

    assert (result["status"], result["content"]) == ("ok", read)


def test_the_settings_of_the_guide_reach_the_tool_and_let_it_run_unasked(vibe: VibeCommand) -> None:
    file, source, call, read = tool_examples()[0]
    settings = blocks("docs/guide/custom-tools.md", "toml")[0]
    (vibe.workdir / file).parent.mkdir(parents=True)
    (vibe.workdir / file).write_text(source)

    before = call_of(vibe, call)
    (vibe.workdir / settings.opening).write_text(settings.text)
    after = call_of(vibe, call)

    assert before["status"] == "denied"
    assert (after["status"], after["content"]) == ("ok", read.replace("!", "?!"))


def test_the_hint_of_the_guide_is_found_beside_its_tool(tmp_path: Path) -> None:
    hint = blocks("docs/guide/custom-tools.md", "markdown")[0].text
    (tmp_path / "prompts").mkdir()
    (tmp_path / "shout.py").write_text(tool_examples()[0][1])
    (tmp_path / "prompts" / "shout.md").write_text(hint)

    manager = ToolManager(ToolSources(root=tmp_path, folders=(tmp_path,)), VibeConfig())

    assert manager.prompts()["shout"] == hint


def shown_commands() -> list[list[str]]:
    """Return the words of every command line in the shell blocks of the documentation that begins with ``vibe``."""
    texts = [path.read_text(encoding="utf-8") for path in DOCUMENTS]
    shown = [match["text"] for text in texts for match in BLOCK.finditer(text) if match["language"] in SHELLS]
    lines = [line.removeprefix("$ ") for text in shown for line in text.replace("\\\n", "").splitlines()]
    lexers = [shlex.shlex(line, posix=True, punctuation_chars=True) for line in lines if line.startswith("vibe ")]
    for lexer in lexers:
        lexer.whitespace_split = True
    commands = [list(takewhile(lambda word: word not in ENDS, lexer)) for lexer in lexers]
    return [words[1:] for words in commands if words[-1] != "…"]


def test_every_command_that_is_shown_can_be_read() -> None:
    commands = shown_commands()

    for words in commands:
        with suppress(TextRequested):
            read_words(words, Namespace())
    assert len(commands) > 100


def test_there_are_plans_to_check() -> None:
    assert {name for name, _ in plan_examples()} >= {"README.md", "docs/guide/ci.md", "docs/reference/plan.md"}


@pytest.mark.parametrize(("name", "text"), plan_examples(), ids=[name for name, _ in plan_examples()])
def test_every_plan_that_is_shown_is_valid(name: str, text: str) -> None:
    assert load_plan(text, where=name).plan.steps


def test_the_decision_of_the_reference_is_taken_as_it_says(vibe: VibeCommand) -> None:
    plan = next(text for name, text in plan_examples() if name.endswith("plan.md") and '"decisions"' in text)
    (vibe.workdir / "plan.json").write_text(plan)

    paused = vibe.process("plan", "run", "--output", "json", "plan.json")
    resumed = vibe.process(
        "plan", "resume", paused.document["plan_id"], "--decide", "where=staging", "--output", "json"
    )

    assert (paused.code, paused.document["reason"]) == (5, "decision")
    statuses = {step["id"]: step["status"] for step in resumed.document["steps"]}
    assert statuses == {"build": "completed", "stage": "completed", "release": "skipped"}


@pytest.fixture
def job(vibe: VibeCommand) -> VibeCommand:
    """Return a project with the plan of the CI guide."""
    (vibe.workdir / "checks.json").write_text(blocks("docs/guide/ci.md", "json")[0].text)
    (vibe.workdir / "test_sums.py").write_text(
        "import unittest\n\n\nclass Sums(unittest.TestCase):\n    def test_one(self):\n        assert 1 + 1 == 2\n"
    )
    return vibe


def shell(job: VibeCommand, script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", script],
        cwd=job.workdir,
        env=job.variables(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
        start_new_session=True,
        check=False,
    )


def test_the_job_of_the_guide_passes_and_reports(job: VibeCommand) -> None:
    look, run, _ = (block.text for block in blocks("docs/guide/ci.md", "sh"))

    assert shell(job, f"set -e\n{look}").returncode == 0
    ended = shell(job, run)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines()[0].split() == ["completed"]
    assert sum(line.startswith("completed ") for line in ended.stdout.splitlines()) == 4


def test_the_job_of_the_guide_fails_with_the_plan(job: VibeCommand) -> None:
    (job.workdir / "broken.py").write_text("def (:\n")

    ended = shell(job, blocks("docs/guide/ci.md", "sh")[1].text)

    assert ended.returncode == 1
    assert "exited with 1" in next(line for line in ended.stdout.splitlines() if line.startswith("failed     lint"))


def test_a_job_that_cannot_start_says_so(job: VibeCommand) -> None:
    (job.workdir / "checks.json").write_text("{}")

    ended = shell(job, blocks("docs/guide/ci.md", "sh")[1].text)

    assert ended.returncode == 2
    assert "the plan could not start" in ended.stderr


def test_a_terminated_job_is_resumed_as_the_guide_says(job: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(
        command_step("first", "echo 1 >> log"),
        {**WAITING, "depends_on": ["first"]},
        command_step("last", "echo 3 >> log", depends_on=["wait"]),
    )
    (job.workdir / plan).rename(job.workdir / "checks.json")
    process = job.start("plan", "run", "--output", "json", "checks.json")
    wait_for_start(job, process)
    process.terminate()
    (job.workdir / "go").touch()
    out, _ = process.communicate(timeout=120)
    (job.workdir / "result.json").write_bytes(out)

    resumed = shell(job, f"set -e\n{blocks('docs/guide/ci.md', 'sh')[2].text}")

    assert process.returncode == 143
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads((job.workdir / "resumed.json").read_text())["outcome"] == "completed"
    assert (job.workdir / "log").read_text() == "1\n3\n"


def watched_run(vibe: VibeCommand, plan: str, command: list[str]) -> tuple[list[str], list[str]]:
    """Return what a run published, and what a late subscriber printed.

    Words of ``command`` that name a field of the run's entry are replaced by its value.
    """
    run = vibe.start("plan", "run", "--output", "streaming", plan)
    wait_for_start(vibe, run)
    entry = vibe("events", "list", "--output", "json").document[0]
    filled = [entry.get(word, word) for word in command]
    watcher = subprocess.Popen(filled, cwd=REPOSITORY, env=vibe.variables(), stdout=subprocess.PIPE)
    vibe.running.append(watcher)
    assert watcher.stdout is not None
    first = watcher.stdout.readline()
    (vibe.workdir / "go").touch()
    published, _ = run.communicate(timeout=120)
    printed = first + watcher.stdout.read()
    assert (run.returncode, watcher.wait(timeout=120)) == (0, 0)
    return published.decode().splitlines()[:-1], printed.decode().splitlines()


@pytest.fixture
def long_plan(write_plan: WritePlan) -> str:
    """Write a plan that waits in its middle for a file ``go``."""
    return write_plan(
        command_step("before", "echo a"),
        {**WAITING, "depends_on": ["before"]},
        command_step("after", "echo b", depends_on=["wait"]),
    )


def test_the_subscriber_in_python_sees_every_change_of_a_step(
    vibe: VibeCommand, long_plan: str, tmp_path: Path
) -> None:
    program = tmp_path / "watch.py"
    program.write_text(blocks("docs/guide/events.md", "python")[0].text)

    published, printed = watched_run(vibe, long_plan, [sys.executable, str(program), "source"])

    changes = [event for event in map(json.loads, published) if event["type"] == "plan.step"]
    assert printed == [*(f"{e['seq']} {e['step_id']} {e['status']}" for e in changes), "ended: finished"]


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_the_subscriber_in_javascript_gets_every_event_once(vibe: VibeCommand, long_plan: str, tmp_path: Path) -> None:
    assert NODE is not None
    program = tmp_path / "watch.mjs"
    program.write_text(blocks("docs/guide/events.md", "js")[0].text)

    published, printed = watched_run(vibe, long_plan, [NODE, str(program), "events", "replay"])

    assert printed == published


def test_the_shell_lines_of_the_events_guide_follow_a_run(vibe: VibeCommand, long_plan: str) -> None:
    listing, tail = blocks("docs/guide/events.md", "sh")[0].text.splitlines()
    words = tail.split()[1:]
    run = vibe.start("plan", "run", long_plan)
    wait_for_start(vibe, run)
    follower = vibe.start(*words)
    assert follower.stdout is not None
    first = follower.stdout.readline()
    assert len(shell(vibe, listing).stdout.splitlines()) == 1
    (vibe.workdir / "go").touch()
    run.communicate(timeout=120)
    rest = follower.stdout.read()

    kinds = [json.loads(line)["type"] for line in (first + rest).splitlines()]
    assert (kinds[0], kinds[-1]) == ("plan.started", "plan.completed")
    assert set(kinds) == {"plan.started", "plan.step", "plan.completed"}
