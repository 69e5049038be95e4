"""Files closed by the deny list of ``read_file`` are closed to every tool that reads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ipc.sink import MemorySink
from tests.fakes.programs import missing
from tests.fakes.tools import call
from vibe.core.config.models import VibeConfig
from vibe.core.tools.base import InvokeContext
from vibe.core.tools.discovery import ToolSources
from vibe.core.tools.executor import ToolBatch, ToolExecutor
from vibe.core.tools.gate import Approvals
from vibe.core.tools.manager import ToolManager
from vibe.core.tools.permissions import ApprovalMode
from vibe.core.tools.workspace import Workspace
from vibe.shell.sandbox.confinement import Confinement
from vibe.shell.sandbox.settings import SandboxConfig

ENVIRON = {"PATH": os.environ["PATH"]}
TABLE = {"read_file": {"denylist": ["private", "*.dump", "docs/plan.md"]}}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "w"
    for name in ("private/a.txt", "data/x.dump", "docs/plan.md", "docs/open.md"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("topsecret\n" if "open" not in name else "open\n")
    (root / "link").symlink_to("private/a.txt")
    return root


@pytest.fixture
def confinement(root: Path) -> Confinement:
    confinement = Confinement(SandboxConfig(), ENVIRON | {"HOME": str(root.parent)}, root.parent / ".vibe")
    confinement.choice()
    return confinement


@pytest.fixture
def executor(root: Path, confinement: Confinement) -> ToolExecutor:
    tools = ToolManager(ToolSources(root=root), VibeConfig(tools=TABLE)).filtered(None, ["read_file"])
    return ToolExecutor(
        tools=tools,
        context=InvokeContext(workspace=Workspace(root=root), environ=ENVIRON, confinement=confinement),
        approvals=Approvals(ApprovalMode.ALL),
        sink=MemorySink(),
    )


async def do(executor: ToolExecutor, tool: str, **arguments: Any) -> ToolBatch:
    return await executor.run_all([call("c", tool, **arguments)], lambda _: None)


@pytest.mark.parametrize(
    "line",
    [
        "cat private/a.txt", "cat ./private/../private/a.txt", "cd private && cat a.txt", "cat link", "cat < docs/plan.md",
        "grep -r x private", "head -n 1 data/*.dump", "cp data/x.dump y && cat y", "cat data/?.DUMP data/x.dump",
        "python3 -c 'print(1)' private/a.txt", "tar cf out.tar private", "base64 \"private/a.txt\"", "true; cat pri*/a.txt",
    ],
)  # fmt: skip
async def test_no_line_names_it(executor: ToolExecutor, line: str) -> None:
    done = await do(executor, "bash", command=line)
    assert (done.messages[0].status, done.denied[0].by) == ("denied", "rule")
    assert "deny list of read_file" in done.messages[0].content


async def test_a_line_that_does_not_name_it_does_not_see_it_either(
    executor: ToolExecutor, confinement: Confinement
) -> None:
    if not confinement.can_read_only():
        missing("only bubblewrap hides files of the workspace")
    for line in ("cat $(echo pri)vate/a.txt", "grep -rh top . || true", "python3 -c \"print(open('pri'+'vate/a.txt').read())\""):  # fmt: skip
        done = await do(executor, "bash", command=line)
        assert "topsecret" not in done.messages[0].content


async def test_grep_passes_it_over(executor: ToolExecutor) -> None:
    assert "topsecret" not in (await do(executor, "grep", pattern="secret|open", path=".")).messages[0].content
    assert (await do(executor, "grep", pattern="open", path=".")).messages[0].content == "docs/open.md:1:open"
    for path in ("private", "docs/plan.md", "link"):
        assert (await do(executor, "grep", pattern="x", path=path)).messages[0].status == "denied"


async def test_what_it_does_not_close_is_open(executor: ToolExecutor) -> None:
    done = await do(executor, "bash", command="cat docs/open.md && echo data")
    assert done.messages[0].content == "open\ndata"
