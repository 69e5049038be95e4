"""A git worktree that is removed while the sandbox of a command is made."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from anyio import to_thread
from msgspec.structs import replace

from subagents.step.command_runner import HostCommands, Purpose
from tests.fakes.programs import missing
from tests.fakes.steps import StepBench
from tests.fakes.tasks import task_of
from tests.integration.core.session.repository import git, repository
from vibe.core.tools.base import InvokeContext
from vibe.core.tools.builtins.bash import Bash, BashArgs, BashConfig, BashResult, BashState
from vibe.core.tools.workspace import ReadTracker, Workspace
from vibe.shell.sandbox import bubblewrap
from vibe.shell.sandbox.confinement import Confinement
from vibe.shell.sandbox.given_files import SECOND, without_shell
from vibe.shell.sandbox.port import SandboxPolicy
from vibe.shell.sandbox.settings import SandboxConfig

SHIM = """#!/bin/sh
if [ -e {gone} ] && [ "$1" != --version ]; then
    case "$(tr '\\0' ' ' < /proc/self/fd/{told})" in *" --ro-bind-try {gone} {gone} "*)
        rm -r {admin}
        echo "bwrap: Can't bind mount /oldroot{gone} on /newroot{gone}: Unable to remount destination \\"/newroot{gone}\\"\
 with correct flags: No such file or directory" >&2
        exit 1
    esac
fi
exec {real} "$@"
"""
"""Fails once, as bwrap does if the worktree is removed between the mount and setting its flags."""


@pytest.fixture
def confinement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Confinement:
    found = bubblewrap.find_bubblewrap({}) if sys.platform.startswith("linux") else "it is for Linux only"
    if isinstance(found, str):
        missing(found)
    policy = SandboxPolicy(writable=(), temp=tmp_path / "temp", box=tmp_path / "box")
    real = without_shell(found.wrap(["true"], {}, policy).argv)[0][0]
    root = repository(tmp_path / "work", {"a": "a"})
    git("worktree", "add", "-q", "../gone", cwd=root)
    admin = root / ".git" / "worktrees" / "gone"
    shim = tmp_path / "bin" / "bwrap"
    shim.parent.mkdir()
    shim.write_text(SHIM.format(told=SECOND, gone=admin / "gitdir", admin=admin, real=real))
    shim.chmod(0o755)
    monkeypatch.setattr(bubblewrap, "SYSTEM_PROGRAMS", (str(shim),))
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    return Confinement(SandboxConfig(), environ, tmp_path / ".vibe", backends=["bubblewrap"])


async def test_a_check_is_begun_again_and_judged_by_what_it_comes_to(tmp_path: Path, confinement: Confinement) -> None:
    root = tmp_path / "work"
    context = StepBench(home=tmp_path).context
    context = replace(context, run=replace(context.run, confinement=confinement), environ={"PATH": "/usr/bin:/bin"})
    commands = HostCommands(context, task_of(), lambda: tmp_path / "output.log")

    result = await commands.run("echo begun >> log; cat log", purpose=Purpose.VERIFY)

    assert (result.exit_code, result.stdout, result.stderr) == (0, "begun\n", "")
    assert not await to_thread.run_sync((root / ".git" / "worktrees" / "gone").exists)


async def test_a_line_of_an_agent_is_begun_again(tmp_path: Path, confinement: Confinement) -> None:
    context = InvokeContext(
        tool_call_id="1",
        workspace=Workspace(root=tmp_path / "work"),
        reads=ReadTracker(),
        environ={"PATH": "/usr/bin:/bin"},
        confinement=confinement,
    )
    tool = Bash(BashConfig(), BashState())

    items = [item async for item in tool.run(BashArgs(command="echo begun >> log; cat log"), context)]

    assert isinstance(items[-1], BashResult)
    assert (items[-1].returncode, items[-1].stdout) == (0, "begun\n")
