"""The examples in the guides to agents, tools and the network work as shown.

Covers ``vibe.core.agents``, ``vibe.core.tools.builtins``.
"""

from __future__ import annotations

import re

import pytest

from tests.e2e.conftest import REPOSITORY, VibeCommand
from tests.e2e.test_subagents import agents, delegate, results_of
from vibe.core.agents.models import BUILTIN_AGENTS, AgentFile

BLOCK = re.compile(r"^```toml\n# (?P<file>\S+)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
GUIDES = REPOSITORY / "docs" / "guide"


def blocks(name: str) -> dict[str, str]:
    return {match["file"]: match["text"] for match in BLOCK.finditer((GUIDES / name).read_text(encoding="utf-8"))}


def place_agents(vibe: VibeCommand) -> None:
    for file, text in blocks("agents.md").items():
        if file.startswith(".vibe/"):
            path = vibe.workdir / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def test_the_agents_of_the_guide_are_found_and_hold_what_it_says(vibe: VibeCommand) -> None:
    place_agents(vibe)
    command = {"name": "bash", "arguments": {"command": "touch made"}}
    write = {"name": "write_file", "arguments": {"path": "a.txt", "content": "x"}}
    push = {"name": "bash", "arguments": {"command": "git push"}}
    vibe.replay(agents(main=[{"tool_calls": [command, write, push]}, {"text": "done"}]))

    listed = vibe("agents", "list", "--trust")
    assert listed.err == ""
    assert "code-analyzer" in listed.out
    lines = vibe("--trust", "--agent", "reviewer", "--output", "streaming", "-p", "go").lines

    assert [result["status"] for result in results_of(lines, "bash")] == ["ok", "denied"]
    assert results_of(lines, "write_file")[0]["status"] == "denied"
    assert (vibe.workdir / "made").exists()


def test_the_subagent_of_the_guide_can_be_delegated_to(vibe: VibeCommand) -> None:
    place_agents(vibe)
    call = delegate("look", agent="code-analyzer")
    vibe.replay(agents(main=[{"tool_calls": [call]}, {"text": "done"}], **{"code-analyzer": [{"text": "fine"}]}))

    lines = vibe("--trust", "--yolo", "--output", "streaming", "-p", "go").lines

    assert results_of(lines, "task")[0]["content"].startswith("fine\n")


@pytest.mark.parametrize("name", ["agents.md", "tools.md", "web-and-network.md"])
def test_the_settings_of_the_guides_are_valid(vibe: VibeCommand, name: str) -> None:
    vibe.configure(blocks(name)["config.toml"])

    ended = vibe("tools", "list")

    assert (ended.code, ended.err) == (0, "")
    assert "read_file" in ended.out


def test_the_guide_knows_every_agent_and_every_key() -> None:
    text = (GUIDES / "agents.md").read_text(encoding="utf-8")

    assert [name for name in BUILTIN_AGENTS if f"| `{name}` |" not in text] == []
    assert [key for key in AgentFile.model_fields if f"`{key}`" not in text and key != "tools"] == []


def test_the_guide_knows_every_tool(vibe: VibeCommand) -> None:
    text = (GUIDES / "tools.md").read_text(encoding="utf-8")
    ours = {
        "read_file",
        "grep",
        "glob",
        "list_dir",
        "write_file",
        "search_replace",
        "bash",
        "background",
        "todo",
        "task",
    }

    assert [name for name in sorted(ours | {"web_fetch", "ask_user_question"}) if f"`{name}`" not in text] == []
    assert ours <= {row["name"] for row in vibe("tools", "list", "--output", "json").document}
