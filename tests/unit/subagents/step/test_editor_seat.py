from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from ipc.events import ToolResultEvent
from subagents.agent.spawner import SpawnPool
from subagents.step.local_executor import LocalExecutor
from tests.fakes.editor import EditorFiles, ScriptedTerminals
from tests.fakes.models import answer, calling
from tests.fakes.steps import StepBench
from tests.fakes.tasks import task_of
from vibe.core.agents.manager import AgentManager, AgentSources
from vibe.core.config.models import SubagentsConfig
from vibe.core.messages import NeverStop, Outcome


@pytest.fixture
def agents(tmp_path: Path) -> AgentManager:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "builder.toml").write_text('description = "Builds"\nagent_type = "subagent"\n')
    return AgentManager(AgentSources(user_home=tmp_path, folders=[tmp_path / "agents"]))


def seated(
    bench: StepBench, agents: AgentManager, editor: EditorFiles, terminals: ScriptedTerminals | None = None
) -> LocalExecutor:
    """Return an executor for the steps of somebody at an editor."""
    context = replace(
        bench.context,
        run=replace(bench.context.run, commands=terminals),
        agents=agents,
        workspace=replace(bench.context.workspace, files=editor),
        spawning=SpawnPool(agents, SubagentsConfig()).below,
    )
    return LocalExecutor(context, bench.step_folder)


def printed(bench: StepBench, tool: str) -> list[str]:
    return [event.content for event in bench.sink.events if isinstance(event, ToolResultEvent) and event.tool == tool]


async def test_an_agent_and_its_subagents_have_the_editors_files_and_terminals(
    tmp_path: Path, agents: AgentManager
) -> None:
    look = calling(("read_file", {"path": "a.txt"}), ("bash", {"command": "ls"}))
    bench = StepBench(
        home=tmp_path,
        answers=[look, calling(("task", {"task": "look", "agent": "builder"})), look, answer("seen"), answer("done")],
    )
    editor, terminals = EditorFiles(), ScriptedTerminals(("first", 0), ("second", 0))
    editor.buffers[bench.write("a.txt", "saved")] = "typed"

    result = await seated(bench, agents, editor, terminals).run(
        task_of(allowed_tools=("read_file", "bash", "task")), NeverStop()
    )

    assert result.outcome is Outcome.COMPLETED
    assert printed(bench, "read_file") == ["typed", "typed"]
    assert printed(bench, "bash") == ["first", "second"]


async def test_a_step_in_a_copy_of_the_workspace_has_the_files_of_the_disk(
    tmp_path: Path, agents: AgentManager
) -> None:
    bench = StepBench(home=tmp_path, answers=[calling(("read_file", {"path": "a.txt"})), answer("done")])
    copy = bench.write("copy/a.txt", "saved")
    editor = EditorFiles()
    editor.buffers[copy] = "typed"

    await seated(bench, agents, editor).run(task_of(workdir=str(copy.parent)), NeverStop())

    assert printed(bench, "read_file") == ["saved"]
    assert editor.asked == []
