"""Python code written for Mistral Vibe finds what it imports, or reads what exists instead."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from anyio import to_thread

from ipc.sink import MemorySink
from tests.fakes.tools import call
from vibe.core import types
from vibe.core.agents.manager import AgentManager, AgentSources
from vibe.core.config.foreign_imports import HERE, INSTEAD, MODULES
from vibe.core.config.models import VibeConfig
from vibe.core.tools.base import InvokeContext
from vibe.core.tools.discovery import ToolSources
from vibe.core.tools.executor import ToolExecutor
from vibe.core.tools.gate import Approvals
from vibe.core.tools.manager import ToolManager
from vibe.core.tools.permissions import ApprovalMode
from vibe.core.tools.workspace import Workspace

DELEGATES = """
    from collections.abc import AsyncGenerator
    from pydantic import BaseModel
    from vibe.core.tools.base import BaseTool, BaseToolConfig, BaseToolState, InvokeContext, ToolError, ToolStreamEvent
    from vibe.core.tools.ui import ToolCallDisplay, ToolUIData
    from vibe.core.types import AgentType, ToolCallEvent

    class HelpersArgs(BaseModel):
        name: str

    class HelpersResult(BaseModel):
        kind: str

    class Helpers(BaseTool[HelpersArgs, HelpersResult, BaseToolConfig, BaseToolState]):
        description = "Says whether an agent can be delegated to."

        async def run(
            self, args: HelpersArgs, ctx: InvokeContext | None = None
        ) -> AsyncGenerator[ToolStreamEvent | HelpersResult, None]:
            if not ctx or not ctx.agent_manager:
                raise ToolError("no agent manager")
            profile = ctx.agent_manager.get_agent(args.name)
            if ctx.approval_callback:
                raise ToolError("nobody can be asked from here")
            yield HelpersResult(kind="subagent" if profile.agent_type == AgentType.SUBAGENT else "agent")
"""


def test_every_name_is_the_one_that_is_defined_here() -> None:
    for name, module in HERE.items():
        assert getattr(types, name) is getattr(import_module(module), name)
    assert not HERE.keys() & INSTEAD.keys()


@pytest.mark.parametrize("module", MODULES)
def test_a_module_that_is_here_is_not_said_to_be_missing(module: str) -> None:
    with pytest.raises(ModuleNotFoundError):
        import_module(module)


@pytest.mark.parametrize("name", INSTEAD)
def test_what_is_not_here_says_what_there_is(name: str) -> None:
    with pytest.raises(ImportError, match=f"{name} of Mistral Vibe is not here: "):
        getattr(types, name)


def test_another_name_is_no_name_of_the_module() -> None:
    assert not hasattr(types, "nothing")


SCRIPT = """
    import asyncio, sys
    from pathlib import Path
    from vibe.core.agents.manager import AgentManager, AgentSources
    from vibe.core.tools.discovery import ToolSources
    from vibe.core.tools.manager import ToolManager
    from vibe.core.types import AgentType, InvokeContext, VibeConfig

    root = Path(sys.argv[1])
    tools = ToolManager(ToolSources(root=root), VibeConfig(enabled_tools=["todo", "read_file"]))
    print(sorted(tools.available_tools), tools.get_tool_config("read_file").max_read_bytes)

    async def main() -> None:
        async for item in tools.get("todo").invoke(action="read"):
            print(type(item).__name__, item.total_count)

    asyncio.run(main())
    print(AgentManager(AgentSources(user_home=root)).get_agent("explore").agent_type is AgentType.SUBAGENT)
    try:
        from vibe.core.types import AgentLoop
    except ImportError as error:
        print(error)
"""


def test_a_script_of_somebody_else_works(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", dedent(SCRIPT), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert ended.stderr == ""
    assert ended.stdout.splitlines() == [
        "['read_file', 'todo'] 64000",
        "TodoResult 0",
        "True",
        "AgentLoop of Mistral Vibe is not here: start an agent with `vibe -p PROMPT --output json`",
    ]


def load(folder: Path, source: str) -> ToolManager:
    (folder / "tools").mkdir()
    (folder / "tools" / "theirs.py").write_text(dedent(source))
    return ToolManager(ToolSources(root=folder, folders=(folder / "tools",)), VibeConfig())


@pytest.mark.parametrize(("name", "kind"), [("explore", "subagent"), ("default", "agent")])
async def test_a_tool_that_looks_at_agents_works(tmp_path: Path, name: str, kind: str) -> None:
    tools = await to_thread.run_sync(load, tmp_path, DELEGATES)
    agents = await to_thread.run_sync(AgentManager, AgentSources(user_home=tmp_path))
    recorded: list[Any] = []
    executor = ToolExecutor(
        tools=tools,
        context=InvokeContext(workspace=Workspace(root=tmp_path), agent_manager=agents),
        approvals=Approvals(ApprovalMode.ALL),
        sink=MemorySink(),
    )
    await executor.run_all([call("1", "helpers", name=name)], recorded.append)
    assert (recorded[0].status, recorded[0].content) == ("ok", f"kind: {kind}")


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("from vibe.core.types import LLMMessage", "vibe.core.messages has a class for each kind of message"),
        (
            "from vibe.core.llm.backend.factory import BACKEND_FACTORY",
            "ModelCatalog of vibe.core.llm.factory makes them",
        ),
        ("from vibe.core.utils.io import read", "that is a module of Mistral Vibe"),
        ("import nothing_of_the_kind", "No module named 'nothing_of_the_kind'"),
    ],
)
def test_a_tool_file_that_is_not_loaded_for_an_import_says_what_to_write(
    tmp_path: Path, line: str, advice: str
) -> None:
    (warning,) = load(tmp_path, line).warnings
    assert "not loaded: line 1: " in warning
    assert warning.endswith(advice) or f"; {advice}" in warning


def test_modules_that_other_peoples_tools_import_are_here() -> None:
    agents, config = import_module("vibe.core.agents.models"), import_module("vibe.core.config")
    assert agents.BUILTIN_AGENTS["explore"].agent_type is agents.AgentType.SUBAGENT
    assert config.VibeConfig is VibeConfig
    assert not hasattr(config, "NoSuchName")
