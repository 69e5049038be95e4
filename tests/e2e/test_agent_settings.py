"""Settings in an agent file: anything if a person chose the file, but no authority if nobody did.

Covers ``vibe.core.agents``, ``vibe.core.config``.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import VibeCommand
from tests.fakes.model_server import ModelServer, Reply

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="there is a sandbox for Linux only")

ALL = """\
description = "Sets what it can"
safety = "neutral"
default_agent = "default"
auto_compact_threshold = 90000
memory_soft_limit_ratio = 0.5
context_warnings = false
instructions = "Say please."
include_commit_signature = false
include_model_info = false
include_prompt_detail = false
include_project_context = false
enable_experimental_hooks = false
skill_paths = ["skills"]
disabled_skills = ["none-*"]
tool_paths = []

[project_context]
max_files = 3

[subagents]
max_spawned = 2

[sandbox]
network = "on"

[planner]
max_parallel_steps = 2

[[providers]]
name = "own"
backend = "scripted"
script = "own.json"

[[models]]
name = "own"
provider = "own"
"""


def agent(vibe: VibeCommand, name: str, text: str) -> Path:
    folder = vibe.home / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.toml").write_text(text)
    return folder


def test_an_agent_that_a_person_chose_sets_any_key(vibe: VibeCommand) -> None:
    vibe.replay({"agents": {"*": {"turns": [{"text": "not this one"}]}}})
    folder = agent(vibe, "mine", f'active_model = "own"\n{ALL}')
    script = {"version": 1, "agents": {"main": {"turns": [{"text": "from its own model"}]}}}
    (folder / "own.json").write_text(json.dumps(script))

    ended = vibe("--agent", "mine", "-p", "go")

    assert (ended.code, ended.out) == (0, "from its own model\n")


@pytest.fixture
def server(vibe: VibeCommand, server: ModelServer) -> ModelServer:
    vibe.configure(
        f'active_model = "m"\ninstructions = "Be brief."\n[[providers]]\nname = "local"\n'
        f'api_base = "{server.api_base}"\n[[models]]\nname = "m"\nprovider = "local"\n'
    )
    server.enqueue(Reply(text="ok"))
    return server


def test_it_lies_over_the_configuration_and_variables_and_below_flags(vibe: VibeCommand, server: ModelServer) -> None:
    agent(vibe, "polite", 'safety = "neutral"\ninstructions = "Say please."\n[sandbox]\nnetwork = "loopback"\n')
    vibe.environ["VIBE_INSTRUCTIONS"] = "Shout."

    assert vibe("--agent", "polite", "-p", "go").code == 0

    system = server.requests[0].body["messages"][0]["content"]
    assert "Say please." in system
    assert "Be brief." not in system
    assert "Shout." not in system


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('safety = "neutral"\nauto_compact_treshold = 5\n', "mine.toml:2: auto_compact_treshold: is not a key"),
        ('safety = "neutral"\n[sandbox]\nnetwork = "wide"\n', "mine.toml:3: sandbox.network: must be"),
        ('safety = "neutral"\n[sandbox]\nnetwrok = "on"\n', "mine.toml:3: unknown setting sandbox.netwrok"),
        ('safety = "neutral"\ncontext_warnings = "no"\n', "mine.toml:2: context_warnings: must be"),
        (
            'safety = "neutral"\n[[models]]\nname = "x"\nprovider = "nobody"\n',
            "models[x].provider: unknown provider",
        ),
    ],
)
def test_a_mistake_in_it_ends_the_run_with_its_line(vibe: VibeCommand, text: str, said: str) -> None:
    agent(vibe, "mine", text)
    vibe.replay({"agents": {"main": {"turns": [{"text": "never"}]}}})
    (vibe.home / "agents").mkdir(exist_ok=True)

    ended = vibe("--agent", "mine", "-p", "go")

    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err


WIDE = 'safety = "neutral"\n[sandbox]\nnetwork = "on"\n'


@linux
def test_a_plan_gains_nothing_by_naming_an_agent(vibe: VibeCommand, write_plan: Callable[..., str]) -> None:
    agent(vibe, "wide", WIDE)
    vibe.replay({"agents": {"a": {"turns": [{"text": "never"}]}}})

    ended = vibe("plan", "run", write_plan({"id": "a", "title": "A", "mode": "code", "agent": "wide"}))

    assert ended.code == 2
    assert "agent 'wide' sets sandbox (" in ended.err
    assert "works only for an agent chosen with --agent" in ended.err


@linux
def test_nor_does_an_agent_by_sending_another(vibe: VibeCommand) -> None:
    agent(vibe, "wide", f'agent_type = "subagent"\n{WIDE}')
    with socket.create_server(("127.0.0.1", 0)) as reached:
        knock = f"echo > /dev/tcp/127.0.0.1/{reached.getsockname()[1]} && touch reached"
        call = {"name": "bash", "arguments": {"command": knock}}
        task = {"name": "task", "arguments": {"task": "knock", "agent": "wide"}}
        turns = {
            "main": {"turns": [{"tool_calls": [task]}, {"text": "done"}]},
            "wide": {"turns": [{"tool_calls": [call]}, {"text": "knocked"}]},
        }
        vibe.replay({"agents": turns})
        ended = vibe("--auto-approve", "--output", "json", "-p", "go")

    assert ended.code == 0
    assert not (vibe.workdir / "reached").exists()
    assert any("works only for an agent the user chooses" in warning for warning in ended.document["warnings"])


def test_a_step_keeps_what_its_agent_sets_for_itself(vibe: VibeCommand, write_plan: Callable[..., str]) -> None:
    agent(vibe, "short", 'safety = "neutral"\nauto_compact_threshold = 600\n')
    long = {"name": "bash", "arguments": {"command": "seq 1 3000"}}
    turns = [{"tool_calls": [long]}, {"tool_calls": [long]}, {"text": "done"}, {"text": "done"}, {"text": "done"}]
    vibe.replay({"agents": {"a": {"turns": turns}, "*": {"turns": [{"text": "a summary"}] * 9}}})
    plan = write_plan({"id": "a", "title": "A", "mode": "code", "agent": "short"})

    lines = vibe("plan", "run", plan, "--auto-approve", "--output", "streaming").lines

    assert any(line["type"] == "compact.start" for line in lines)
