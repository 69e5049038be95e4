"""A stateful shell keeps its folder and exported variables between calls, and nothing that misleads the policy."""

from __future__ import annotations

from pathlib import Path

import pytest
from anyio import to_thread

from tests.fakes.tools import ExecutorRig, ScriptedApprover, call
from tests.unit.core.tools.builtins.calling import PATH, Caller
from vibe.core.config.models import VibeConfig
from vibe.core.tools.base import ToolError, ToolPermission
from vibe.core.tools.builtins.bash import Bash, BashConfig, BashState
from vibe.core.tools.discovery import ToolSources
from vibe.core.tools.gate import Approvals
from vibe.core.tools.manager import ToolManager
from vibe.core.tools.permissions import Assessment
from vibe.core.tools.ports import ApprovalAnswer
from vibe.core.tools.workspace import Workspace


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "work" / "src" / "deep").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    return Workspace(root=tmp_path / "work").root


def stateful_bash() -> Bash:
    return Bash(BashConfig(stateful=True), BashState())


async def judged(tool: Bash, root: Path, line: str) -> Assessment:
    return await to_thread.run_sync(tool.assess, tool.parse({"command": line}), Workspace(root=root))


async def printed(tool: Bash, caller: Caller, line: str) -> str:
    return (await caller.call(tool, command=line)).stdout.strip()


async def test_without_the_setting_each_call_starts_afresh(root: Path) -> None:
    tool, caller = Bash(BashConfig(), BashState()), Caller(root=root)
    result = await caller.call(tool, command="cd src; export COLOUR=red")
    assert result.note == ""
    assert await printed(tool, caller, "pwd; echo ${COLOUR-none}") == f"{root}\nnone"


async def test_folder_and_exported_variables_are_kept_and_nothing_else(root: Path) -> None:
    tool, caller = stateful_bash(), Caller(root=root)
    line = "cd src; export COLOUR='red\ngreen' empty=; plain=1; f() { echo f; }; alias g=h; set -f"
    first = await caller.call(tool, command=line)
    assert first.note == (
        "[a fresh shell, begun in the workspace root: nothing is kept from before; the next call starts in src]"
    )
    look = 'pwd; echo "$COLOUR|${empty-unset}|${plain-unset}|$(type -t f)|$-|$#|$SHLVL"'
    assert await printed(tool, caller, look) == f"{root}/src\nred\ngreen||unset||hBc|0|1"
    assert (await caller.call(tool, command="true")).note == ""


async def test_what_was_unset_stays_unset_and_what_is_set_back_is_as_it_was(root: Path) -> None:
    tool, caller = stateful_bash(), Caller(root=root, environ={"PATH": PATH, "HUE": "blue"})
    await caller.call(tool, command="unset HUE")
    assert await printed(tool, caller, "echo ${HUE-none}") == "none"
    await caller.call(tool, command="export HUE=blue")
    assert tool.state.shell.variables == {}


@pytest.mark.parametrize("end", ["exit 3", "false", "set -e; false", "exec 9>mine; exit 3"])
async def test_it_is_kept_however_the_line_comes_to_its_end(root: Path, end: str) -> None:
    tool, caller = stateful_bash(), Caller(root=root)
    result = await caller.call(tool, command=f"cd src; {end}")
    assert result.returncode in {1, 3}
    assert await printed(tool, caller, "pwd") == f"{root}/src"
    mine = root / "src" / "mine"
    assert not mine.exists() or mine.read_text() == ""


@pytest.mark.parametrize(
    "line", ["cd src; exec true", "cd src; kill -9 $$", "cd src; trap - EXIT", "cd src; trap 'echo x' EXIT"]
)
async def test_a_shell_that_did_not_tell_changes_nothing_and_that_is_said(root: Path, line: str) -> None:
    tool, caller = stateful_bash(), Caller(root=root)
    result = await caller.call(tool, command=line)
    assert "they stay as they were before this call" in result.note
    assert await printed(tool, caller, "pwd") == str(root)


async def test_what_the_line_starts_can_not_tell_for_it(root: Path) -> None:
    tool, caller = stateful_bash(), Caller(root=root)
    forging = "sh -c \"printf '/etc\\n\\000PATH=/evil\\000' >&9\" 2>/dev/null; true"
    await caller.call(tool, command=forging)
    assert tool.state.shell.folder == ""
    assert tool.state.shell.variables == {}


async def test_a_folder_outside_the_workspace_is_not_kept(root: Path) -> None:
    (root / "way out").symlink_to(root.parent / "other")
    tool, caller = stateful_bash(), Caller(root=root)
    await caller.call(tool, command="cd src")
    for line in ("cd /", "cd ../..", "cd '../way out'"):
        result = await caller.call(tool, command=line)
        assert "is outside the workspace: the next call starts in src" in result.note, line
        assert await printed(tool, caller, "pwd") == f"{root}/src"


async def test_a_folder_that_is_gone_runs_nothing_elsewhere(root: Path) -> None:
    tool, caller = stateful_bash(), Caller(root=root)
    await caller.call(tool, command="cd src/deep")
    (root / "src" / "deep").rmdir()
    with pytest.raises(
        ToolError, match="src/deep is gone: nothing was run, the next call starts in the workspace root"
    ):
        await caller.call(tool, command="touch here")
    assert not (root / "here").exists()
    assert await printed(tool, caller, "pwd") == str(root)
    await caller.call(tool, command="cd src/deep || mkdir src/deep && cd src/deep")
    (root / "src" / "deep").rmdir()
    (root / "src" / "deep").symlink_to(root.parent / "other")
    with pytest.raises(ToolError, match="is gone"):
        await caller.call(tool, command="touch here")
    assert not (root.parent / "other" / "here").exists()


async def test_variables_of_secrets_git_loader_and_shell_are_not_kept_and_that_is_said(root: Path) -> None:
    tool, caller = stateful_bash(), Caller(root=root)
    names = "LD_PRELOAD= GIT_EXTERNAL_DIFF=x BASH_ENV=x ENV=x MY_TOKEN=x CDPATH=/ PAGER=less SSH_AUTH_SOCK=/s IFS=, f"
    result = await caller.call(tool, command=f"f() {{ :; }}; export -f f; export {names.removesuffix(' f')} KEPT=1")
    dropped = "BASH_ENV, BASH_FUNC_f%%, CDPATH, ENV, GIT_EXTERNAL_DIFF, IFS, LD_PRELOAD, MY_TOKEN, PAGER, SSH_AUTH_SOCK"
    assert f"not kept for later calls: {dropped}" in result.note
    assert tool.state.shell.variables == {"KEPT": "1"}


async def test_more_than_a_shell_may_tell_is_not_kept(root: Path) -> None:
    tool, caller = stateful_bash(), Caller(root=root)
    line = "cd src; for i in 1 2 3; do export a$i=$(head -c 60000 /dev/zero | tr '\\0' x); done"
    assert "did not tell" in (await caller.call(tool, command=line)).note
    assert tool.state.shell.variables == {}


async def test_where_no_program_can_be_given_the_variables_any_more_they_stay_as_they_were(root: Path) -> None:
    tool, caller = stateful_bash(), Caller(root=root)
    await caller.call(tool, command="export KEPT=1")
    line = "export LONG=$(head -c 200000 /dev/zero | tr '\\0' x)"
    assert "did not tell" in (await caller.call(tool, command=line)).note
    assert tool.state.shell.variables == {"KEPT": "1"}


# --- what is judged is what runs ---------------------------------------------------------------------------------


async def test_paths_are_judged_from_the_kept_folder(root: Path) -> None:
    (root / "src" / "notes.txt").write_text("mine")
    (root / "src" / "link.txt").symlink_to(root.parent / "other" / "theirs.txt")
    (root.parent / "other" / "theirs.txt").write_text("theirs")
    tool, caller = stateful_bash(), Caller(root=root)
    assert (await judged(tool, root, "cat link.txt")).listed is ToolPermission.ALWAYS  # there is no such file
    await caller.call(tool, command="cd src")
    verdicts = {
        line: (await judged(tool, root, line)).listed
        for line in (
            "cat notes.txt",
            "cat ../src/notes.txt",
            "cat link.txt",
            "cat ../../other/theirs.txt",
            "cd .. && ls",
        )
    }
    assert verdicts == {
        "cat notes.txt": ToolPermission.ALWAYS,
        "cat ../src/notes.txt": ToolPermission.ALWAYS,
        "cat link.txt": None,
        "cat ../../other/theirs.txt": None,
        "cd .. && ls": ToolPermission.ALWAYS,
    }


async def test_the_repository_is_looked_for_from_the_kept_folder(root: Path) -> None:
    git = root / "src" / ".git"
    for folder in ("objects", "refs"):
        (git / folder).mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "config").write_text("[core]\n\tfsmonitor = touch /tmp/owned\n")
    tool, caller = stateful_bash(), Caller(root=root)
    assert (await judged(tool, root, "git status")).listed is ToolPermission.ALWAYS
    await caller.call(tool, command="cd src")
    found = await judged(tool, root, "git status")
    assert (found.listed, found.read_only) == (None, False)
    assert "git would run" in found.reason


async def test_what_read_file_may_not_read_is_closed_from_the_kept_folder(root: Path) -> None:
    (root / "src" / "plan.txt").write_text("x")
    tool, caller = stateful_bash(), Caller(root=root)
    workspace = Workspace(root=root).without_reading(["src/plan.txt"])
    await caller.call(tool, command="cd src")
    found = await to_thread.run_sync(tool.assess, tool.parse({"command": "cat plan.txt"}), workspace)
    assert found.listed is ToolPermission.NEVER


async def test_variables_that_a_program_may_heed_have_a_line_asked_about(root: Path) -> None:
    tool, caller = stateful_bash(), Caller(root=root)
    await caller.call(tool, command="export mine=1")
    assert (await judged(tool, root, "ls")).listed is ToolPermission.ALWAYS
    await caller.call(tool, command="export pnpm_config_shell=x")
    assert (await judged(tool, root, "ls")).listed is None
    await caller.call(tool, command="unset pnpm_config_shell; export PATH=$PWD/bin:$PATH")
    found = await judged(tool, root, "ls")
    assert (found.listed, found.read_only) == (None, False)
    assert found.reason == "it runs with variables that an earlier call has set: PATH"
    assert tool.summarize(tool.parse({"command": "ls"})) == "bash (with PATH) ls"
    assert (await judged(tool, root, "vim x")).listed is ToolPermission.NEVER


async def test_a_lasting_yes_holds_for_the_folder_and_the_variables_it_was_given_with(root: Path) -> None:
    tool, caller = stateful_bash(), Caller(root=root)
    keys = [(await judged(tool, root, "npm test")).covers]
    for line in ("cd src", "export NODE_OPTIONS=a", "export NODE_OPTIONS=b", "cd ..; unset NODE_OPTIONS"):
        await caller.call(tool, command=line)
        keys.append((await judged(tool, root, "npm test")).covers)
    assert keys[0] == keys[4] == ("npm test *",)
    assert keys[1] == ("npm test * [in src]",)
    assert len(set(keys)) == 4
    assert (await judged(tool, root, "echo $(x)")).covers == ()
    await caller.call(tool, command="cd src")
    assert all("[in src]" in key for key in (await judged(tool, root, "echo $(x)")).covers)
    (root / "src").rename(root / "gone")
    assert (await judged(tool, root, "npm test")).covers == ("npm test *",)


async def rig(root: Path, approvals: Approvals | None = None) -> ExecutorRig:
    tables = {"bash": {"stateful": True}}
    return await to_thread.run_sync(
        lambda: ExecutorRig(root, approvals=approvals, tables=tables, environ={"PATH": PATH})
    )


async def test_calls_of_one_answer_are_judged_where_those_before_them_have_led(root: Path) -> None:
    (root / "src" / "link.txt").symlink_to(root.parent / "other")
    approver = ScriptedApprover([ApprovalAnswer(allow=False)])
    rigged = await rig(root, Approvals(approver=approver))
    lines = ("cd src", "cat link.txt", "pwd")
    calls = [call(str(number), "bash", command=line) for number, line in enumerate(lines)]
    await rigged.executor.run_all(calls, rigged.record)
    assert [message.status for message in rigged.recorded] == ["ok", "denied", "ok"]
    assert f"{root}/src" in rigged.recorded[2].content
    (asked,) = approver.asked
    assert asked.summary == "bash (in src) cat link.txt"


async def test_the_model_is_told_what_kind_of_shell_it_has(root: Path) -> None:
    sources, config = ToolSources(root=root), VibeConfig(tools={"bash": {"stateful": True}})
    manager = await to_thread.run_sync(ToolManager, sources, config)
    stateful = manager.prompts()["bash"]
    afresh = await to_thread.run_sync(Bash.get_tool_prompt)
    assert "the next call starts in the folder where this one ended" in stateful
    assert "starts afresh" not in stateful
    assert afresh is not None
    assert "starts afresh" in afresh

    profile = await to_thread.run_sync(
        lambda: manager.reconfigured(lambda _, config: config.model_copy(update={"stateful": False}))
    )
    assert profile.prompts()["bash"] == afresh
