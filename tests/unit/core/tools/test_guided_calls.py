"""The executor's handling of hooks, skills and instructions of folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipc.sink import MemorySink
from tests.fakes.tools import Peek, Traffic, call, passing_tools
from tests.unit.core.skills.writing import write_skill
from vibe.core.config.models import VibeConfig
from vibe.core.guidance import ShellHooks
from vibe.core.hooks.runner import Hook, HookEvent, HookRunner
from vibe.core.instructions.project_docs import NestedDocs
from vibe.core.messages import ToolMessage
from vibe.core.skills.manager import AgentSkills, SkillManager
from vibe.core.tools.base import InvokeContext
from vibe.core.tools.discovery import ToolSources
from vibe.core.tools.executor import ToolBatch, ToolExecutor
from vibe.core.tools.gate import Approvals
from vibe.core.tools.guidance import CallGuidance
from vibe.core.tools.manager import ToolManager
from vibe.core.tools.permissions import ApprovalMode
from vibe.core.tools.workspace import Workspace


class Guided:
    """An executor over tools that log their calls, with shell lines as hooks."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.traffic = Traffic()
        self.sink = MemorySink()
        self.guidance = CallGuidance(docs=NestedDocs(root=root, origin=root, trusts=lambda _: True))
        self.guidance.skills = AgentSkills(SkillManager((root / "skills",)))
        self.messages: list[ToolMessage] = []
        tables = {"look": {"denylist": ["forbidden"]}}
        self.executor = ToolExecutor(
            tools=ToolManager(
                ToolSources(root=root, extra=(*passing_tools(self.traffic), Peek)), VibeConfig(tools=tables)
            ),
            context=InvokeContext(workspace=Workspace(root=root)),
            approvals=Approvals(ApprovalMode.ALL),
            sink=self.sink,
            guidance=self.guidance,
        )

    def hooks(self, **lines: str) -> None:
        made = [Hook(name=event, event=HookEvent(event), command=line, retries=0) for event, line in lines.items()]
        commands = ShellHooks(self.root, {"PATH": "/usr/bin:/bin"})
        self.guidance.hooks = HookRunner(made, commands, self.sink, {"session_id": "s"})

    async def run(self, tool: str, /, **arguments: str) -> ToolBatch:
        return await self.executor.run_all([call("1", tool, **arguments)], self.messages.append)


@pytest.fixture
def guided(tmp_path: Path) -> Guided:
    write_skill(tmp_path / "skills", "narrow", tools="peek")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "AGENTS.md").write_text("lib rules")
    (tmp_path / "lib" / "a.py").write_text("x")
    return Guided(tmp_path)


async def test_a_hook_denies_a_call_that_everything_else_allows(guided: Guided) -> None:
    guided.hooks(before_tool="echo 'not on my watch' >&2; exit 2")
    batch = await guided.run("change", name="a")
    assert guided.traffic.log == []
    assert [(denial.tool, denial.by) for denial in batch.denied] == [("change", "rule")]
    assert "not on my watch" in guided.messages[0].content
    assert guided.messages[0].status == "denied"


async def test_what_a_hook_makes_of_the_arguments_is_run_and_told(guided: Guided) -> None:
    guided.hooks(before_tool="""echo '{"hook_specific_output": {"tool_input": {"name": "b"}}}'""")
    await guided.run("change", name="a")
    assert guided.traffic.log == ["+b", "-b"]
    assert "(The hook 'before_tool' changed the call; this was run: " in guided.messages[0].content


async def test_a_hook_makes_no_call_of_what_is_denied(guided: Guided) -> None:
    guided.hooks(before_tool="""echo '{"hookSpecificOutput": {"updatedInput": {"name": "forbidden"}}}'""")
    batch = await guided.run("look", name="a")
    assert guided.traffic.log == []
    assert [denial.by for denial in batch.denied] == ["rule"]


async def test_arguments_of_a_hook_that_fit_no_tool_are_an_error(guided: Guided) -> None:
    guided.hooks(before_tool="""echo '{"hook_specific_output": {"tool_input": {"nam": 3}}}'""")
    await guided.run("change", name="a")
    assert guided.traffic.log == []
    assert guided.messages[0].status == "error"
    assert "the hook 'before_tool' changed the arguments, and" in guided.messages[0].content


async def test_a_hook_that_crashes_denies(guided: Guided) -> None:
    guided.hooks(before_tool="no-such-program")
    await guided.run("change", name="a")
    assert guided.traffic.log == []
    assert "the hook 'before_tool' exited with 127" in guided.messages[0].content


async def test_a_hook_is_asked_after_the_rules_and_not_about_what_they_deny(guided: Guided, tmp_path: Path) -> None:
    guided.hooks(before_tool="touch asked")
    await guided.run("look", name="forbidden")
    assert guided.messages[0].status == "denied"
    assert not (tmp_path / "asked").exists()


async def test_a_hook_hears_of_what_was_run_and_of_nothing_else(guided: Guided, tmp_path: Path) -> None:
    guided.hooks(after_tool='cat >>heard; echo \'{"message": "noted"}\'')
    await guided.run("change", name="a", fail="tool")
    assert guided.guidance.take_notices() == ("the hook 'after_tool' says about change: noted",)
    assert '"status": "error"' in (tmp_path / "heard").read_text()
    (tmp_path / "heard").unlink()
    await guided.run("change", wrong="argument")
    await guided.run("no_such_tool")
    assert not (tmp_path / "heard").exists()


async def test_a_loaded_skill_stands_before_everything_else(guided: Guided) -> None:
    await guided.run("skill", name="narrow")
    await guided.run("change", name="a")
    assert [message.status for message in guided.messages] == ["ok", "denied"]
    assert guided.traffic.log == []


async def test_a_file_in_a_folder_with_instructions_brings_them_along(guided: Guided) -> None:
    await guided.run("peek", path="lib/a.py")
    assert "lib rules" in guided.guidance.take_notices()[0]
    assert guided.messages[0].content == "x"
