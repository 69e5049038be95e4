"""Files that stay closed to all tools except commands, in every mode of an agent."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from ipc.sink import MemorySink
from tests.fakes.tools import ScriptedApprover, call
from vibe.core.config.models import VibeConfig
from vibe.core.config.trust import DOCS
from vibe.core.tools.base import InvokeContext
from vibe.core.tools.discovery import ToolSources
from vibe.core.tools.executor import ToolBatch, ToolExecutor
from vibe.core.tools.gate import Approvals
from vibe.core.tools.manager import ToolManager
from vibe.core.tools.permissions import ApprovalMode
from vibe.core.tools.ports import ApprovalAnswer
from vibe.core.tools.workspace import Workspace, bounds_of
from vibe.shell.sandbox.confinement import Confinement
from vibe.shell.sandbox.settings import SandboxConfig


@dataclass(kw_only=True)
class House:
    """A user's home with secrets and settings, a workspace, and an executor that approves all that it may."""

    home: Path
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    tables: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    mode: ApprovalMode = ApprovalMode.ALL
    approver: ScriptedApprover | None = None
    root: Path | None = None

    def __post_init__(self) -> None:
        for name, text in FILES.items():
            (self.home / name).parent.mkdir(parents=True, exist_ok=True)
            (self.home / name).write_text(text)

    def executor(self) -> ToolExecutor:
        environ = {"HOME": str(self.home), "PATH": os.defpath}
        confinement = Confinement(SandboxConfig(**self.settings), environ, self.home / ".vibe")
        workspace = Workspace(
            root=self.root or self.home / "work",
            bounds=bounds_of(confinement, environ),
        )
        return ToolExecutor(
            tools=ToolManager(ToolSources(root=workspace.root), VibeConfig(tools=self.tables)),
            context=InvokeContext(workspace=workspace, environ=environ),
            approvals=Approvals(self.mode, self.approver),
            sink=MemorySink(),
        )

    async def do(self, tool: str, **arguments: Any) -> ToolBatch:
        executor = await to_thread.run_sync(self.executor)
        return await executor.run_all([call("c", tool, **arguments)], lambda _: None)


FILES = {
    ".aws/credentials": "aws_secret_access_key = topsecret",
    ".bash_history": "export TOKEN=topsecret",
    ".bashrc": "# mine",
    ".vibe/.env": "MISTRAL_API_KEY=topsecret",
    ".vibe/config.toml": "# topsecret",
    ".cache/tool/notes.txt": "cached",
    "other/notes.txt": "other",
    "work/notes.txt": "mine",
    "work/.git/config": "[core]",
}


@pytest.fixture
def house(tmp_path: Path) -> Callable[..., House]:
    def build(**changes: Any) -> House:
        (tmp_path / "home").mkdir()
        return House(home=tmp_path / "home", **changes)

    return build


def by(batch: ToolBatch) -> str:
    return batch.denied[0].by if batch.denied else ""


@pytest.mark.parametrize(
    "path",
    [
        "../.aws/credentials", "~/.aws/credentials", "../.vibe/.env", "../.vibe/config.toml", "../.bash_history",
        "../other/notes.txt", "/etc/hosts", ".env", "link", "hidden", ".env.link",
    ],
)  # fmt: skip
async def test_no_mode_reads_what_is_closed(
    house: Callable[..., House], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = house()
    monkeypatch.setenv("HOME", str(home.home))
    work = home.home / "work"
    (work / ".env").write_text("KEY=topsecret")
    (work / "link").symlink_to("../.aws/credentials")
    (work / "hidden").symlink_to(".env")
    (work / ".env.link").symlink_to("notes.txt")
    done = await home.do("read_file", path=path)
    assert (done.messages[0].status, by(done)) == ("denied", "rule")
    assert "topsecret" not in done.messages[0].content


@pytest.mark.parametrize(
    "path",
    [
        "../.bashrc", "~/.bashrc", "../.ssh/authorized_keys", "../.vibe/tools/x.py", "../.config/autostart/x.desktop",
        ".git/hooks/pre-commit", "sub/.git/config", ".git", ".vibe/config.toml", ".agents/skills/x/SKILL.md", "x.git/hooks/update",
        "../other/notes.txt", "/etc/vibe-test", ".env", "tools/x.py", "elsewhere/hooks/pre-commit",
    ],
)  # fmt: skip
async def test_no_mode_writes_what_is_closed(
    house: Callable[..., House], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = house()
    monkeypatch.setenv("HOME", str(home.home))
    work = home.home / "work"
    (work / "tools").mkdir()
    (work / ".vibe").symlink_to(".")  # so that tools/ is .vibe/tools/
    (work / ".git").rename(work / "elsewhere")
    (work / ".git").write_text("gitdir: elsewhere\n")
    before = {file: file.read_bytes() for file in home.home.rglob("*") if file.is_file()}
    done = await home.do("write_file", path=path, content="x")
    assert (done.messages[0].status, by(done)) == ("denied", "rule")
    assert {file: file.read_bytes() for file in home.home.rglob("*") if file.is_file()} == before


@pytest.mark.parametrize("mode", ApprovalMode)
async def test_what_is_open_stays_open(house: Callable[..., House], mode: ApprovalMode) -> None:
    home = house(mode=mode)
    assert (await home.do("read_file", path="notes.txt")).messages[0].status == "ok"
    written = await home.do("write_file", path="src/a.py", content="x")
    assert written.messages[0].status == ("denied" if mode is ApprovalMode.ASK else "ok")


@pytest.mark.parametrize("path", [*DOCS, "agents.MD", ".husky/pre-commit", "hooks.d/post-checkout"])
async def test_what_is_closed_to_commands_is_closed_to_tools(house: Callable[..., House], path: str) -> None:
    home = house()
    (home.home / "work" / ".git" / "config").write_text(
        "[core]\n\thooksPath = .husky\n[include]\n\tpath = ../hooks.d\n"
    )
    assert by(await home.do("write_file", path=path, content="x")) == "rule"
    assert (await home.do("write_file", path=f"docs/{path}", content="x")).messages[0].status == "ok"


async def test_a_workspace_that_is_the_home_keeps_its_secrets_closed(house: Callable[..., House]) -> None:
    home = house()
    home.root = home.home
    for path in (".bash_history", ".vibe/config.toml", ".aws/credentials"):
        assert by(await home.do("read_file", path=path)) == "rule"
    for path in (".bashrc", ".config/systemd/user/x.service", ".vibe/config.toml", ".local/bin/ls"):
        assert by(await home.do("write_file", path=path, content="x")) == "rule"
    assert (await home.do("write_file", path="other/.bashrc", content="x")).messages[0].status == "ok"
    found = await home.do("grep", pattern="topsecret", path=".")
    assert "topsecret" not in found.messages[0].content


async def test_a_workspace_inside_a_closed_place_is_open(house: Callable[..., House]) -> None:
    home = house()
    home.root = home.home / ".vibe" / "plans" / "p" / "worktrees" / "w"
    home.root.mkdir(parents=True)
    assert (await home.do("write_file", path="a.py", content="x")).messages[0].status == "ok"
    assert (await home.do("read_file", path="a.py")).messages[0].status == "ok"
    assert by(await home.do("read_file", path="../../../../config.toml")) == "rule"


async def test_the_keys_are_read_by_nobodys_yes(house: Callable[..., House]) -> None:
    approver = ScriptedApprover([ApprovalAnswer(allow=True)])
    home = house(
        mode=ApprovalMode.ASK,
        approver=approver,
        settings={"readable": ["/"]},
        tables={"read_file": {"allowlist": ["*", "/*", "**/.env"]}},
    )
    os.link(home.home / ".vibe" / ".env", home.home / "work" / "copy.txt")
    for path in ("../.vibe/.env", "copy.txt"):
        done = await home.do("read_file", path=path)
        assert by(done) == "rule"
        assert "closed to every tool" in done.messages[0].content
    assert not approver.asked


async def test_a_yes_to_what_is_closed_holds_once(house: Callable[..., House]) -> None:
    yes = ApprovalAnswer(allow=True, scope="session")
    approver = ScriptedApprover([yes, yes])
    home = house(approver=approver)
    executor = await to_thread.run_sync(home.executor)
    for number in (1, 2):
        done = await executor.run_all([call(f"c{number}", "read_file", path="../.aws/credentials")], lambda _: None)
        assert "topsecret" in done.messages[0].content
    assert [request.covers for request in approver.asked] == [(), ()]


async def test_the_sandboxs_settings_open_places_to_every_tool(
    house: Callable[..., House],
) -> None:
    home = house()
    home.settings = {"writable": [str(home.home / ".cache/tool")], "readable": [str(home.home / ".aws")]}
    assert "cached" in (await home.do("read_file", path="../.cache/tool/notes.txt")).messages[0].content
    assert (await home.do("write_file", path="../.cache/tool/new", content="x")).messages[0].status == "ok"
    assert "topsecret" in (await home.do("read_file", path="../.aws/credentials")).messages[0].content
    assert by(await home.do("write_file", path="../.aws/new", content="x")) == "rule"


@pytest.mark.parametrize(
    ("glob", "opens"),
    [("*", False), ("**", False), ("../*", False), ("work/*", False), ("~/.aws/*", True), ("~/.aws/credentials", True)],
)
async def test_an_allow_list_opens_what_it_names(
    house: Callable[..., House], glob: str, opens: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = house(tables={"read_file": {"allowlist": [glob]}})
    monkeypatch.setenv("HOME", str(home.home))
    done = await home.do("read_file", path="../.aws/credentials")
    assert (done.messages[0].status == "ok") is opens


@pytest.mark.parametrize("path", [".git/config", "notes.txt"])
async def test_tokens_in_addresses_of_remotes_are_masked(house: Callable[..., House], path: str) -> None:
    home = house()
    (home.home / "work" / path).write_text("url = https://ada:0123456789abcdef@example.org/a.git")
    done = await home.do("read_file", path=path)
    assert done.messages[0].status == "ok"
    assert ("0123456789abcdef" in done.messages[0].content) is (path == "notes.txt")
