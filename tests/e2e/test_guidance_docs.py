"""The examples in the guides to skills, hooks, trust and prompts do what the guides say.

Covers ``vibe.core.instructions``, ``vibe.core.skills``, ``vibe.core.hooks``.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

from tests.e2e.conftest import REPOSITORY, VibeCommand
from tests.e2e.test_docs import blocks

SKILLS, HOOKS = "docs/guide/skills.md", "docs/guide/hooks.md"
TRUST, PROMPTS = "docs/guide/trust-and-project-files.md", "docs/guide/prompts.md"


def write(vibe: VibeCommand, name: str, text: str) -> None:
    path = vibe.workdir / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def results(vibe: VibeCommand, *calls: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the results of a scripted agent's calls."""
    vibe.replay({"agents": {"main": {"turns": [*({"tool_calls": [call]} for call in calls), {"text": "done"}]}}})
    lines = vibe("--yolo", "--trust", "--output", "streaming", "-p", "go").lines
    return [line for line in lines if line["type"] == "tool.result"]


def bash(command: str) -> dict[str, Any]:
    return {"name": "bash", "arguments": {"command": command}}


def test_the_skill_of_the_guide_is_listed_and_restricts_as_it_says(vibe: VibeCommand) -> None:
    write(vibe, ".vibe/skills/code-review/SKILL.md", blocks(SKILLS, "markdown")[0].text)
    listed = vibe("skills", "list", "--trust")
    assert (listed.out, listed.err) == (blocks(SKILLS, "text")[0].text, "")

    found = results(vibe, {"name": "skill", "arguments": {"name": "code-review"}}, bash("git diff -h"), bash("touch x"))
    assert "Report bugs first" in found[0]["content"]
    assert [result["status"] for result in found] == ["ok", "ok", "denied"]

    settings = blocks(SKILLS, "toml")[0]
    write(vibe, settings.opening, settings.text)
    assert vibe("skills", "list", "--trust").out.startswith("no skills")


def test_the_hooks_of_the_guide_work_as_it_says(vibe: VibeCommand) -> None:
    hooks = blocks(HOOKS, "toml")[0]
    write(vibe, hooks.opening, hooks.text)
    vibe.replay({
        "agents": {
            "main": {
                "turns": [
                    {"tool_calls": [bash("git push")]},
                    {"tool_calls": [{"name": "write_file", "arguments": {"path": "a.txt", "content": "x"}}]},
                    {"text": "I am done"},
                    {"tool_calls": [bash("touch tested")]},
                    {"text": "now I am"},
                ]
            }
        }
    })
    vibe.configure("enable_experimental_hooks = true\n" + (vibe.home / "config.toml").read_text())
    record = vibe("--yolo", "--trust", "--output", "json", "-p", "go").document

    assert (record["result"], record["exit_code"]) == ("now I am", 0)
    assert "denied by hook 'no pushing': pushing is for people" in record["denied"][0]["reason"]
    session = vibe.home / "logs" / "session" / record["session_id"] / "messages.jsonl"
    told = session.read_text()
    assert "run the formatter before you finish" in told
    assert "the tests were not run" in told


def test_the_commands_of_the_trust_guide_run(vibe: VibeCommand) -> None:
    lines = [line[2:] for block in blocks(TRUST, "console") for line in block.text.splitlines()]
    assert len(lines) == 6
    ended = [vibe(*shlex.split(line)[1:]) for line in lines]
    assert [(command.code, command.err) for command in ended] == [(0, "")] * 6
    assert "the tests run with tox" in ended[-1].out


def test_the_prompt_of_the_guide_is_used(vibe: VibeCommand) -> None:
    settings = blocks(PROMPTS, "toml")[0]
    write(vibe, settings.opening, settings.text)
    vibe.replay({"agents": {"main": {"turns": [{"text": "done"}]}}})
    missing = vibe("--trust", "-p", "go")
    assert missing.code == 2
    assert "no prompt 'reviewer'" in missing.err

    write(vibe, ".vibe/prompts/reviewer.md", blocks(PROMPTS, "markdown")[0].text)
    assert vibe("--trust", "-p", "go").out == "done\n"


def test_the_guides_link_to_what_there_is() -> None:
    for name in (SKILLS, HOOKS, TRUST, PROMPTS):
        text = (REPOSITORY / name).read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            assert (REPOSITORY / name).parent.joinpath(target).exists(), (name, target)
