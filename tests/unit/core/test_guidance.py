"""The instructions that one agent gets, and those that its subagents inherit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ipc.sink import MemorySink
from tests.unit.core.skills.writing import write_skill
from vibe.core.config.loader import LoadedConfig
from vibe.core.config.models import VibeConfig
from vibe.core.guidance import AgentPrompt, Guidance, load_guidance, loaded_skills
from vibe.core.instructions.memory import MemoryStore
from vibe.core.instructions.project_docs import ProjectDoc, ProjectDocs
from vibe.core.instructions.system_prompt import COMMIT_SIGNATURE
from vibe.core.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from vibe.core.skills.manager import LOADED, SkillManager
from vibe.core.tools.discovery import ToolSources
from vibe.core.tools.manager import ToolManager


@pytest.fixture
def skills(tmp_path: Path) -> SkillManager:
    write_skill(tmp_path / "skills", "look", tools="Read")
    write_skill(tmp_path / "skills", "find", tools="Read Grep")
    return SkillManager((tmp_path / "skills",))


def loading(name: str, status: str = "ok") -> tuple[Message, Message]:
    call = ToolCall(id=f"c-{name}", name="skill", arguments=f'{{"name": "{name}"}}')
    return AssistantMessage("", tool_calls=(call,)), ToolMessage("x", call.id, "skill", status=status)


def test_tools_that_would_have_nothing_to_work_with_are_left_out(tmp_path: Path, skills: SkillManager) -> None:
    tools = ToolManager(ToolSources(root=tmp_path), VibeConfig())
    assert {"skill", "memory"}.isdisjoint(Guidance().tools(tools).available)
    memory = MemoryStore(folder=tmp_path / "memory", project=tmp_path)
    assert {"skill", "memory"} <= set(Guidance(skills=skills, memory=memory).tools(tools).available)


def test_whoever_is_started_is_restricted_like_who_starts_it(tmp_path: Path, skills: SkillManager) -> None:
    guidance = Guidance(skills=skills)
    parent = guidance.for_agent(tmp_path, MemorySink(), {})
    child = guidance.for_subagents(parent).for_agent(tmp_path, MemorySink(), {})

    child.skills.load("look")
    assert parent.restriction("grep", {}) is None
    parent.skills.load("find")
    assert child.restriction("bash", {"command": "ls"}) is not None
    grandchild = guidance.for_subagents(parent).for_subagents(child).for_agent(tmp_path, MemorySink(), {})
    assert "'look'" in (grandchild.restriction("grep", {}) or "")


def test_an_agent_that_goes_on_is_restricted_by_what_it_had_loaded(tmp_path: Path, skills: SkillManager) -> None:
    guidance = Guidance(skills=skills)
    fresh, resumed = (
        guidance.for_agent(tmp_path, MemorySink(), {}),
        guidance.for_agent(tmp_path, MemorySink(), {}, conversation=loading("look")),
    )
    assert fresh.restriction("grep", {}) is None
    assert resumed.restriction("grep", {}) == "the skill 'look' restricts this agent to Read"
    assert resumed.restriction("read_file", {"path": "a"}) is None


@pytest.mark.parametrize("as_written", ["/look", "LOOK"])
def test_a_skill_loaded_by_its_command_restricts_the_agent_that_goes_on(
    tmp_path: Path, skills: SkillManager, as_written: str
) -> None:
    resumed = Guidance(skills=skills).for_agent(tmp_path, MemorySink(), {}, conversation=loading(as_written))
    assert resumed.restriction("grep", {}) == "the skill 'look' restricts this agent to Read"


def test_a_started_skill_with_a_quote_in_its_name_is_read_off_a_conversation(tmp_path: Path) -> None:
    write_skill(tmp_path, "editor's", tools="Read")
    desk = Guidance(skills=SkillManager((tmp_path,))).for_agent(tmp_path, MemorySink(), {})
    assert list(loaded_skills([UserMessage(desk.skills.invoked("/editor's choice"))])) == ["editor's"]


def test_skills_that_were_loaded_are_read_off_a_conversation(skills: SkillManager, tmp_path: Path) -> None:
    desk = Guidance(skills=skills).for_agent(tmp_path, MemorySink(), {})
    started = UserMessage(desk.skills.invoked("/find it"))
    conversation = [started, *loading("look"), *loading("gone", status="error"), UserMessage("/look is no start")]
    assert list(loaded_skills(conversation)) == ["find", "look"]


def test_a_shortened_conversation_still_restricts_who_goes_on_with_it(tmp_path: Path, skills: SkillManager) -> None:
    calls = Guidance(skills=skills).for_agent(tmp_path, MemorySink(), {}, conversation=loading("look"))
    (reminder,) = calls.reminders()
    shortened = [UserMessage(f"A summary.\n\n{reminder}\n\nMore."), UserMessage(f"{LOADED}no list")]
    assert list(loaded_skills(shortened)) == ["look"]
    assert Guidance(skills=skills).for_agent(tmp_path, MemorySink(), {}).reminders() == ()


def test_the_prompt_of_a_subagent_is_lean(tmp_path: Path, skills: SkillManager) -> None:
    guidance = Guidance(
        commit_signature=True,
        model_info=True,
        skills=skills,
        docs=ProjectDocs(docs=(ProjectDoc(path=tmp_path / "AGENTS.md", text="RULES"),)),
        context="FILES",
    )
    prompt = AgentPrompt(workspace=tmp_path, model="m", lean=True)
    text = guidance.system_prompt("BASE", prompt)
    assert "FILES" not in text
    assert "RULES" in text
    assert "<name>look</name>" in text
    assert "FILES" in guidance.system_prompt("BASE", AgentPrompt(workspace=tmp_path, model="m"))


def test_layers_of_a_prompt_come_in_order_and_empty_ones_not_at_all(skills: SkillManager) -> None:
    guidance = Guidance(
        commit_signature=True,
        model_info=True,
        instructions="MINE",
        shell_path="/bin/zsh",
        skills=skills,
        docs=ProjectDocs(docs=(ProjectDoc(path=Path("/w/AGENTS.md"), text="DOCS"),)),
        memory_section="MEMORY",
        context="CONTEXT",
    )
    prompt = AgentPrompt(
        workspace=Path("/w"),
        model="devstral-2",
        role="ROLE",
        tool_prompts=("TOOL",),
        subagents={"explore": "Looks <around>"},
    )
    text = guidance.system_prompt("BASE", prompt)
    order = ["BASE", "ROLE", "MINE", COMMIT_SIGNATURE, "Workspace: /w", "Your model: devstral-2", "Shell: /bin/zsh"]
    order += ["TOOL", "<name>look</name>", "- explore: Looks &lt;around&gt;", "CONTEXT", "DOCS", "MEMORY"]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert text == guidance.system_prompt("BASE", prompt)
    bare = Guidance(prompt_detail=False)
    assert bare.system_prompt("BASE", AgentPrompt(workspace=Path("/w"), model="m")) == "BASE\n\nWorkspace: /w\n"


def test_without_detail_a_prompt_has_no_tools_skills_or_subagents(skills: SkillManager) -> None:
    guidance = Guidance(prompt_detail=False, shell_path="/bin/zsh", skills=skills)
    prompt = AgentPrompt(workspace=Path("/w"), model="m", tool_prompts=("TOOL",), subagents={"explore": "x"})
    assert guidance.system_prompt("BASE", prompt) == "BASE\n\nWorkspace: /w\n"


def test_placeholders_of_a_base_are_filled_and_other_braces_stay() -> None:
    base = "{config.active_model} on {shell}: {unknown} {not a name} {}"
    guidance = Guidance(model_info=True, shell_path="zsh")
    text = guidance.system_prompt(base, AgentPrompt(workspace=Path("/w"), model="m{shell}"))
    assert text.startswith("m{shell} on zsh: {unknown} {not a name} {}\n")


def test_project_skills_come_before_the_users_and_up_to_the_git_root(tmp_path: Path) -> None:
    home, project = tmp_path / "me" / ".vibe", tmp_path / "me" / "project"
    inner = project / "inner"
    inner.mkdir(parents=True)
    (project / ".git").mkdir()
    write_skill(home / "skills", "both")
    write_skill(tmp_path / "me" / ".agents" / "skills", "shared")
    kept = write_skill(inner / ".vibe" / "skills", "both")
    write_skill(project / ".agents" / "skills", "outer")

    request = LoadedConfig(
        home=home, workdir=inner, environ={"HOME": str(tmp_path / "me")}, config=VibeConfig(), trust_workdir=True
    )
    guidance = load_guidance(request)
    assert list(guidance.skills.available) == ["both", "outer", "shared"]
    assert guidance.skills.get("both").path == kept
    assert any("two skills are called 'both'" in warning for warning in guidance.warnings)


def test_a_damaged_memory_costs_the_memory_and_not_the_run(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "global.json").write_text("{")
    request = LoadedConfig(home=tmp_path, workdir=tmp_path, environ={"HOME": str(tmp_path)}, config=VibeConfig())
    guidance = load_guidance(request)
    assert guidance.memory_section == ""
    assert "global.json" in guidance.warnings[0]


def taught(tmp_path: Path, *names: str, **config: Any) -> Guidance:
    project = tmp_path / "project"
    for name in names:
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix:
            path.write_text("Say moo.\n")
        else:
            path.mkdir()
    request = LoadedConfig(
        home=tmp_path / "home",
        workdir=project,
        environ={"HOME": str(tmp_path)},
        config=VibeConfig(**config),
        trust_workdir=True,
    )
    return load_guidance(request)


def test_where_there_is_no_agents_md_claude_md_is_read(tmp_path: Path) -> None:
    assert "Say moo." in taught(tmp_path, "CLAUDE.md").docs.prompt_section()
    assert [doc.path.name for doc in taught(tmp_path, "AGENTS.md").docs.docs] == ["AGENTS.md"]


@pytest.mark.parametrize(
    ("name", "way"),
    [
        (".claude/skills", 'skill_paths = [".claude/skills"]'),
        (".claude/commands", "copy .claude/commands to .vibe/commands"),
        (".mcp.json", "vibe mcp import .mcp.json"),
        (".vscode/mcp.json", "vibe mcp import .vscode/mcp.json"),
        (".cursor/rules", "AGENTS.md"),
        (".github/copilot-instructions.md", "AGENTS.md"),
        ("GEMINI.md", "AGENTS.md"),
    ],
)
def test_what_other_agents_would_read_is_named_in_one_line(tmp_path: Path, name: str, way: str) -> None:
    (warning,) = taught(tmp_path, name).warnings
    assert warning.startswith(f"not read here: {name}; ")
    assert way in warning


def test_it_is_one_line_for_all_of_it_and_none_beside_what_is_our_own(tmp_path: Path) -> None:
    (warning,) = taught(tmp_path, ".claude/skills", ".mcp.json", ".cursor/rules").warnings
    assert warning.count("not read here") == 1
    assert [part in warning for part in (".cursor/rules", ".claude/skills", ".mcp.json")] == [True] * 3
    write_skill(tmp_path / "project" / ".vibe" / "skills", "look")
    (tmp_path / "project" / "AGENTS.md").write_text("Say moo.\n")
    server = {"name": "a", "transport": "stdio", "command": ["a"]}
    assert taught(tmp_path, mcp_servers=[server]).warnings == ()
