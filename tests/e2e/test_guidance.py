"""The instructions of a project and a user, as the installed command sends and follows them.

Covers ``vibe.core.instructions``, ``vibe.core.skills``, ``vibe.core.hooks``.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import VibeCommand
from tests.fakes.model_server import ModelServer, Reply, ServedCall


class Taught:
    """A command that talks to a served model, and a project it works in."""

    def __init__(self, vibe: VibeCommand, server: ModelServer) -> None:
        self.vibe = vibe
        self.server = server
        self.root = vibe.workdir
        vibe.environ["HOME"] = str(vibe.home.parent)
        self.configure()

    def configure(self, extra: str = "", tables: str = "") -> None:
        self.vibe.configure(
            f'active_model = "m"\nenable_experimental_hooks = true\n{extra}\n[[providers]]\nname = "p"\nbackend = "generic"\n'
            f'api_base = "{self.server.api_base}"\n[[models]]\nname = "m"\nprovider = "p"\n{tables}'
        )

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def says(self, *calls: ServedCall, then: str = "done") -> None:
        """Script the model to make one call in each turn, and then answer."""
        self.server.enqueue(*(Reply(tool_calls=(call,)) for call in calls), Reply(text=then))

    def ask(self, *words: str) -> dict[str, Any]:
        """Return the record of a run, which must succeed."""
        ended = self.vibe("--output", "json", *words, "-p", "go")
        assert ended.code == 0, (ended.out, ended.err)
        return ended.document

    def sent(self, index: int = 0) -> list[dict[str, Any]]:
        """Return the messages of a request."""
        return self.server.requests[index].body["messages"]

    @property
    def system(self) -> str:
        return self.sent()[0]["content"]

    def tools(self, index: int = 0) -> set[str]:
        return {tool["function"]["name"] for tool in self.server.requests[index].body["tools"]}


@pytest.fixture
def taught(vibe: VibeCommand) -> Iterator[Taught]:
    with ModelServer() as server:
        yield Taught(vibe, server)


def call(tool: str, /, **arguments: Any) -> ServedCall:
    digest = abs(hash((tool, str(arguments)))) % 10**5
    return ServedCall(name=tool, arguments=json.dumps(arguments), id=f"call{digest:05}")


HOOKS = """
[[hooks]]
name = "guard"
event = "PreToolUse"
matcher = "Bash"
command = "touch {canary}; echo 'no commands today' >&2; exit 2"
"""
SKILL = "---\nname: {name}\ndescription: {name} <things>\nallowed-tools: Read\n---\n\nThe instructions of {name}.\n"


def a_whole_project(taught: Taught, canary: Path) -> None:
    """Create a project that tries to instruct the agent in every way there is."""
    taught.write("AGENTS.md", "CANARY rules\n")
    taught.write(".vibe/hooks.toml", HOOKS.format(canary=canary))
    taught.write(".vibe/skills/one/SKILL.md", SKILL.format(name="one"))
    taught.write(".agents/skills/two/SKILL.md", SKILL.format(name="two"))
    taught.write(".vibe/prompts/cli.md", "CANARY prompt")
    taught.write(".vibe/tools/mine.py", f"open({str(canary)!r}, 'w')\n")
    taught.write(".vibe/agents/default.toml", 'safety = "yolo"\nauto_approve = true\n')
    taught.write("lib/AGENTS.md", "CANARY nested\n")
    taught.write("lib/a.py", "x = 1\n")


def test_an_untrusted_project_teaches_nothing_and_that_is_said_once(taught: Taught, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    a_whole_project(taught, canary)
    taught.says(call("bash", command="ls"), call("read_file", path="lib/a.py"))

    record = taught.ask()

    assert not canary.exists()
    assert "CANARY" not in json.dumps(taught.sent(2))
    assert "skill" not in taught.tools()
    assert len(record["warnings"]) == 1
    assert ".vibe" in record["warnings"][0]
    assert "AGENTS.md" in record["warnings"][0]
    assert "vibe trust add" in record["warnings"][0]


def test_a_trusted_project_teaches_everything(taught: Taught, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    a_whole_project(taught, canary)
    taught.write(".vibe/tools/mine.py", "")
    said, power = taught.vibe("trust", "add").out.splitlines()
    assert said == f"{taught.root} is trusted now"
    assert power.startswith("with its settings, calls run unasked (")
    assert power.endswith(".vibe/agents/default.toml:2: auto_approve = true)")
    taught.says(call("bash", command="ls"), call("read_file", path="lib/a.py"))

    record = taught.ask()

    assert canary.exists()
    assert [(denial["tool"], denial["by"]) for denial in record["denied"]] == [("bash", "rule")]
    assert "no commands today" in record["denied"][0]["reason"]
    assert "CANARY prompt" in taught.system
    assert "CANARY rules" in taught.system
    assert "<name>one</name>\n    <description>one &lt;things&gt;</description>" in taught.system
    assert "<name>two</name>" in taught.system
    assert "skill" in taught.tools()
    assert "CANARY nested" not in json.dumps(taught.sent(1))
    assert "CANARY nested" in taught.sent(2)[-1]["content"]
    assert taught.sent(2)[-1]["role"] == "user"
    assert [request.body["messages"][0] for request in taught.server.requests] == [taught.sent()[0]] * 3


def test_trust_for_one_run_and_trust_taken_back(taught: Taught) -> None:
    taught.write("AGENTS.md", "CANARY rules")
    for words in (["--trust"], []):
        taught.says()
        taught.ask(*words)
    assert "CANARY" in taught.system
    assert "CANARY" not in json.dumps(taught.sent(1))
    assert taught.vibe("trust", "add", ".").code == 0
    assert taught.vibe("trust", "list", "--output", "json").document["trusted"] == [str(taught.root)]
    assert "no longer trusted" in taught.vibe("trust", "remove").out
    taught.says()
    taught.ask()
    assert "CANARY" not in json.dumps(taught.sent(2))


def test_a_skill_restricts_its_agent_from_then_on(taught: Taught) -> None:
    path = taught.vibe.home / "skills" / "one" / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(SKILL.format(name="one"))
    (path.parent / "more.md").write_text("more about it")
    taught.says(
        call("bash", command="echo before"),
        call("skill", name="one"),
        call("bash", command="echo after"),
        call("read_file", path=str(path.parent / "more.md")),
    )

    record = taught.ask("--auto-approve")

    results = [message["content"] for message in taught.sent(4) if message["role"] == "tool"]
    assert "before" in results[0]
    assert "The instructions of one." in results[1]
    assert "the skill 'one' restricts this agent to Read" in results[2]
    assert "more about it" in results[3]
    assert [denial["tool"] for denial in record["denied"]] == ["bash"]


def test_a_skill_is_started_by_its_command(taught: Taught) -> None:
    taught.write(".vibe/skills/one/SKILL.md", SKILL.format(name="one"))
    taught.says()
    assert taught.vibe("--trust", "-p", "/one look at lib").code == 0
    prompt = taught.sent()[-1]["content"]
    assert "The instructions of one." in prompt
    assert prompt.endswith("look at lib")


def test_skills_are_listed(taught: Taught) -> None:
    taught.write(".vibe/skills/one/SKILL.md", SKILL.format(name="one"))
    taught.write(".vibe/skills/My Skill/SKILL.md", "---\nname: My Skill\ndescription: d\ndescription: MIT\n---\n")

    ended = taught.vibe("skills", "list", "--trust", "--output", "json")
    assert [(skill["name"], skill["command"]) for skill in ended.document] == [
        ("My Skill", "/my-skill"),
        ("one", "/one"),
    ]
    assert "set twice" in ended.err
    assert "not made of lower-case letters" in ended.err
    untrusted = taught.vibe("skills", "list")
    assert untrusted.out.startswith("no skills")
    assert "not loaded" in untrusted.err


def test_hooks_of_the_user_comment_and_send_back(taught: Taught) -> None:
    log = taught.vibe.home / "seen.jsonl"
    (taught.vibe.home / "hooks.toml").write_text(
        f'[[hooks.AfterTool]]\nname = "lint"\ncommand = """cat >>{log}; echo >>{log}; echo \'{{"message": "too long"}}\'"""\n'
        '[[hooks.stop]]\nname = "tests"\n'
        'command = """grep -q \'"again": 0\' && { echo \'run the tests\' >&2; exit 2; }; true"""\n'
    )
    taught.says(call("read_file", path="missing.txt"), then="I am done")
    taught.server.enqueue(Reply(text="now it is"))

    record = taught.ask()

    assert record["result"].strip() == "now it is"
    assert "the hook 'lint' says about read_file: too long" in taught.sent(1)[-1]["content"]
    assert "the hook 'tests' says: run the tests" in taught.sent(2)[-1]["content"]
    seen = json.loads(log.read_text().splitlines()[0])
    assert (seen["event"], seen["tool"], seen["status"]) == ("after_tool", "read_file", "error")
    assert (seen["cwd"], seen["session_id"], seen["subagent"]) == (str(taught.root), record["session_id"], None)


def test_hooks_guard_the_steps_of_a_plan(taught: Taught) -> None:
    taught.vibe.home.joinpath("hooks.toml").write_text(
        '[[hooks]]\nevent = "before_tool"\nname = "g"\ncommand = "exit 1"\n'
    )
    taught.write(
        "plan.json",
        json.dumps({"version": 1, "goal": "g", "steps": [{"id": "s", "title": "S", "mode": "code", "prompt": "p"}]}),
    )
    taught.says(call("write_file", path="a.txt", content="x"))

    ended = taught.vibe("plan", "run", "plan.json", "--auto-approve", "--output", "json")

    assert not (taught.root / "a.txt").exists()
    assert "the hook 'g' exited with 1" in json.dumps(taught.sent(1))
    assert ended.document["steps"][0]["id"] == "s"


def test_a_wrong_hooks_file_ends_the_run_before_it_starts(taught: Taught) -> None:
    taught.vibe.home.joinpath("hooks.toml").write_text('[[hooks]]\nevent = "lunch"\ncommand = "x"\n')
    ended = taught.vibe("-p", "go")
    assert ended.code == 2
    assert "hooks.toml:2: hooks.event: must be one of before_tool" in ended.err
    assert taught.server.requests == []


def test_what_is_kept_is_told_next_time(taught: Taught) -> None:
    taught.says(call("memory", action="add", text="tests run with tox"))
    lines = taught.vibe("--yolo", "--output", "streaming", "-p", "go").lines
    assert [(line["action"], line["text"]) for line in lines if line["type"] == "memory.entry"] == [
        ("added", "tests run with tox")
    ]
    assert taught.vibe("memory", "add", "--global", "be", "brief").code == 0
    taught.says()
    taught.ask()
    system = taught.sent(2)[0]["content"]
    assert "- tests run with tox (project, id " in system
    assert "- be brief (global, id " in system
    (entry,) = [e for e in taught.vibe("memory", "list", "--output", "json").document if e["by"] == "agent"]
    assert taught.vibe("memory", "remove", entry["id"]).out == "forgotten: tests run with tox\n"


def test_keeping_something_needs_a_yes(taught: Taught) -> None:
    taught.says(call("memory", action="list"), call("memory", action="add", text="obey"))
    ended = taught.vibe("--output", "json", "-p", "go")
    assert ended.code == 5
    assert [denial["tool"] for denial in ended.document["denied"]] == ["memory"]
    assert len(taught.server.requests) == 3


def test_layers_can_be_left_out(taught: Taught) -> None:
    taught.write("README.md", "# A README")
    taught.says()
    taught.ask()
    for part in ("# A README", "Co-Authored-By", "Your model: m", "System: ", "README.md"):
        assert part in taught.system
    off = "".join(
        f"include_{layer} = false\n" for layer in ("commit_signature", "model_info", "prompt_detail", "project_context")
    )
    taught.configure(f'system_prompt_id = "tests"\n{off}')
    taught.says()
    taught.ask()
    system = taught.sent(1)[0]["content"]
    assert system.endswith(f"Workspace: {taught.root}\n")
    assert len(system) < 400


def test_an_unknown_prompt_names_where_it_was_looked_for(taught: Taught) -> None:
    taught.configure('system_prompt_id = "mine"\n')
    ended = taught.vibe("-p", "go")
    assert ended.code == 2
    assert str(taught.vibe.home / "prompts" / "mine.md") in ended.err
    assert ended.err.count("\n") == 1


def test_the_first_request_of_a_tiny_repository_is_small(taught: Taught) -> None:
    taught.write("README.md", "# Tiny\n")
    taught.write("tiny.py", "print('tiny')\n")
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=taught.root, check=True)
    taught.says()
    taught.ask()
    body = json.dumps(taught.server.requests[0].body)
    assert "Current branch: main" in body
    assert len(body.encode()) < 20_000


def test_skills_and_agents_of_a_folder_below_are_there_if_it_is_trusted(taught: Taught) -> None:
    skill = "---\nname: {name}\ndescription: {text}\n---\nDo it."
    taught.write(".vibe/skills/both/SKILL.md", skill.format(name="both", text="The workspace's."))
    taught.write("services/api/.vibe/skills/both/SKILL.md", skill.format(name="both", text="The service's."))
    taught.write("services/api/.agents/skills/migrate/SKILL.md", skill.format(name="migrate", text="Change tables."))
    taught.write("services/api/.vibe/agents/dba.toml", 'description = "Knows tables"\nagent_type = "subagent"\n')
    taught.says()
    taught.ask("--trust")
    assert "Change tables." in taught.system
    assert "The workspace&#x27;s." in taught.system
    assert "The service&#x27;s." not in taught.system
    assert "Knows tables" in taught.system
    taught.says()
    taught.ask()
    assert "Change tables." not in taught.sent(1)[0]["content"]
    assert "migrate" in taught.vibe("skills", "list", "--trust").out
    assert "dba" in taught.vibe("agents", "list", "--trust").out
    assert "dba" not in taught.vibe("agents", "list").out
