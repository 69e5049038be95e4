"""``vibe dashboard`` without a screen: the list once, as JSON, and a line for each change."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from ipc import events as e
from tests.architecture.project import ROOT
from tests.fakes.runs import ASKED, Run, running
from vibe.cli.environment import CliEnvironment
from vibe.cli.run import run_command_line


def dashboard(home: Path, *words: str) -> str:
    """Run the command, check that it succeeds, and return its standard output."""
    out, err = io.StringIO(), io.StringIO()
    env = CliEnvironment(home=home, cwd=home, environ={}, stdout=out, stderr=err, stdin=io.StringIO())
    assert run_command_line(["dashboard", *words], env) == 0, err.getvalue()
    return out.getvalue()


@pytest.fixture
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal() as portal:
        yield portal


@pytest.fixture
def run(vibe_home: Path, portal: BlockingPortal) -> Iterator[Run]:
    """Start a run of a plan that asks for approval of a command."""
    with portal.wrap_async_context_manager(running(vibe_home)) as run:
        portal.call(run.begins)
        portal.call(run.moves, "a", "in_progress")
        portal.call(run.says, ASKED)
        yield run


def test_without_runs_it_says_so(vibe_home: Path) -> None:
    assert dashboard(vibe_home) == "nothing runs, and nothing has run\n"
    assert json.loads(dashboard(vibe_home, "--output", "json")) == {
        "version": 1,
        "control": False,
        "runs": {},
        "requests": {},
    }


@pytest.mark.usefixtures("run")
def test_what_waits_is_listed_with_the_command_that_answers(vibe_home: Path) -> None:
    lines = dashboard(vibe_home, "--plain").splitlines()
    assert lines[:2] == ["1 waiting", "Waiting for you"]
    assert lines[2].startswith("  plan-1  Tidy up")
    assert "▓▓▓▓▓▓▓░░░░░░░  0/2" in lines[2]
    assert lines[3:] == [
        "    ? run make  y yes  n no",
        "      vibe events answer plan-1 request-1 ANSWER",
    ]


@pytest.mark.usefixtures("run")
def test_as_json_it_has_the_rows(vibe_home: Path) -> None:
    document = json.loads(dashboard(vibe_home, "--output", "json"))
    row = document["runs"]["plan-1"]
    assert (row["title"], row["requests"], row["live"]) == ("Tidy up", 1, True)
    assert document["requests"]["request-1"]["command"] == "make"
    assert document["requests"]["request-1"]["run"] == "plan-1"


def test_what_ended_is_listed_as_earlier(vibe_home: Path, portal: BlockingPortal) -> None:
    with portal.wrap_async_context_manager(running(vibe_home)) as run:
        portal.call(run.begins)
    lines = dashboard(vibe_home).splitlines()
    assert lines[:2] == ["nothing runs", "Earlier"]
    assert lines[2].startswith("  plan-1  a title")


def test_followed_each_change_is_a_line(vibe_home: Path, portal: BlockingPortal, run: Run) -> None:
    words = [sys.executable, "-m", "vibe.cli.main", "dashboard", "--follow", "--output", "json"]
    environ = {**os.environ, "VIBE_HOME": str(vibe_home)}
    with subprocess.Popen(words, cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = [json.loads(process.stdout.readline()) for _ in range(2)]
        assert [(each["table"], each["id"]) for each in first] == [("runs", "plan-1"), ("requests", "request-1")]
        portal.call(run.says, e.ApprovalDecisionEvent(request_id="request-1", decision="allow", by="Ana"))
        second = [json.loads(process.stdout.readline()) for _ in range(2)]
        assert ("requests", "request-1", None) in [(each["table"], each["id"], each["row"]) for each in second]
        process.terminate()
        assert process.wait(timeout=60) == 143


def test_followed_in_words_only_what_matters_is_a_line(vibe_home: Path, portal: BlockingPortal, run: Run) -> None:
    words = [sys.executable, "-m", "vibe.cli.main", "dashboard", "--follow"]
    environ = {**os.environ, "VIBE_HOME": str(vibe_home)}
    with subprocess.Popen(words, cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().split()[1:] == ["plan-1", "active", "0/2", "Tidy", "up"]
        assert process.stdout.readline().split()[1:] == ["plan-1", "asks", "run", "make"]
        portal.call(run.moves, "a", "completed", "in_progress")
        assert process.stdout.readline().split()[1:] == ["plan-1", "active", "1/2", "Tidy", "up"]
        process.terminate()
        assert process.wait(timeout=60) == 143
