"""Programs that a confined command may have left where PATH leads into the workspace: vibe starts none of them.

Covers ``vibe.shell.process``, ``vibe.system``.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import VibeCommand, command_step
from tests.e2e.test_prompt import turns

EXECUTES = True  # where modules and programs are found is what these are about
PLANTED = (
    "bash", "bwrap", "cat", "code", "env", "gcc", "git", "git-lfs", "gpg", "less", "my-server", "node", "npx", "pager", "ps",
    "python3", "rg", "sh", "ssh", "unshare", "uv", "uvx", "xdg-open",
)  # fmt: skip
SAID = "planted program ran"
EDITOR = "sed"


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=t", "-c", "user.email=t@t")
    return subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def planted(vibe: VibeCommand, tmp_path: Path) -> Path:
    """Plant programs in a repository's folders on PATH, and return the file to which they would write."""
    word = tmp_path / "word"
    (vibe.workdir / "a.txt").write_text("a needle\n")
    git(vibe.workdir, "init", "-q")
    git(vibe.workdir, "add", "a.txt")
    git(vibe.workdir, "commit", "-qm", "one")
    folders = [vibe.workdir / ".venv" / "bin", vibe.workdir / "node_modules" / ".bin", vibe.workdir]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        for name in (*PLANTED, EDITOR):
            (folder / name).write_text(f'#!/bin/sh\necho "{SAID}: $0 $*" >>{word}\nexit 0\n')
            (folder / name).chmod(0o755)
    way = os.pathsep.join([str(folders[0]), "node_modules/.bin", ".", "", os.environ["PATH"]])
    vibe.environ["PATH"] = way
    return word


def after_config(vibe: VibeCommand, text: str) -> None:
    config = vibe.home / "config.toml"
    config.write_text(config.read_text() + text)


def of_a_prompt(vibe: VibeCommand, _: Callable[..., str]) -> None:
    grep = {"name": "grep", "arguments": {"pattern": "needle"}}
    change = {"name": "write_file", "arguments": {"path": "b.txt", "content": "b\n"}}
    # Its commands run with the user's PATH, so they only use a name for which nothing is planted.
    line = {"name": "bash", "arguments": {"command": "echo $PATH; pwd"}}
    vibe.replay(turns({"text": "x", "tool_calls": [grep, change, line]}, {"text": "done"}))
    vibe.home.joinpath("hooks.toml").write_text('[[hooks]]\nevent = "after_tool"\nname = "g"\ncommand = "git status"\n')
    after_config(vibe, "enable_experimental_hooks = true\n[updates]\ncheck = true\n")

    ended = vibe.process("--auto-approve", "--output", "json", "-p", "go")
    assert ended.code == 0, ended.err
    assert (vibe.workdir / "b.txt").exists()


def of_a_plan(vibe: VibeCommand, write_plan: Callable[..., str]) -> None:
    fields = {"workspace": "worktree"}
    plan = write_plan(command_step("a", "echo a >b.txt", **fields), command_step("b", "pwd"))
    git(vibe.workdir, "add", "-A")
    git(vibe.workdir, "commit", "-qm", "two")

    ended = vibe.process("plan", "run", plan)
    assert ended.code == 0, ended.err
    assert (vibe.workdir / "b.txt").exists()
    assert vibe.process("plan", "clean", "--all", "--yes").code in {0, 2}


def of_doctor(vibe: VibeCommand, _: Callable[..., str]) -> None:
    assert str(vibe.workdir) + "/.venv" not in vibe.process("doctor").out


def of_a_server(vibe: VibeCommand, _: Callable[..., str]) -> None:
    vibe.replay(turns({"text": "done"}))
    after_config(vibe, '[[mcp_servers]]\nname = "web"\ntransport = "stdio"\ncommand = "my-server"\n')

    told = vibe.process("mcp", "list").out
    assert f"there is no command 'my-server' ({vibe.workdir}/.venv/bin/my-server is not used" in told


def of_an_editor(vibe: VibeCommand, _: Callable[..., str]) -> None:
    vibe.replay(turns({"text": "done"}))
    vibe.environ["EDITOR"] = f"{EDITOR} -n p"
    vibe.process("config", "edit")


STARTS = {
    "a prompt": of_a_prompt,
    "a plan": of_a_plan,
    "doctor": of_doctor,
    "a server": of_a_server,
    "an editor": of_an_editor,
}


@pytest.mark.parametrize("name", STARTS)
def test_no_program_of_the_workspace_is_started(
    vibe: VibeCommand, planted: Path, write_plan: Callable[..., str], name: str
) -> None:
    STARTS[name](vibe, write_plan)

    assert (planted.read_text() if planted.exists() else "") == ""


def test_an_added_folder_and_a_writable_one_are_no_places_of_programs(vibe: VibeCommand, tmp_path: Path) -> None:
    word = tmp_path / "word"
    for name in ("added", "written"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "git").write_text(f"#!/bin/sh\necho {name} >>{word}\n")
        (tmp_path / name / "git").chmod(0o755)
    git(vibe.workdir, "init", "-q")
    vibe.environ["PATH"] = f"{tmp_path}/added:{tmp_path}/written:{os.environ['PATH']}"
    vibe.replay(turns({"text": "done"}))
    after_config(vibe, f'[sandbox]\nwritable = ["{tmp_path}/written"]\n')

    assert vibe.process("--add-dir", f"{tmp_path}/added", "-p", "go").code == 0
    assert not word.exists()
    assert vibe.process("-p", "go").code == 0
    assert set(word.read_text().split()) == {"added"}


def test_commands_have_the_users_path(vibe: VibeCommand, planted: Path, write_plan: Callable[..., str]) -> None:
    ended = vibe.process("plan", "run", write_plan(command_step("a", "xdg-open; echo $PATH >path; env >env; true")))

    assert ended.code == 0
    assert f"{vibe.workdir}/.venv/bin/xdg-open" in planted.read_text()
    assert (vibe.workdir / "path").read_text() == f"{vibe.environ['PATH']}\n"


def test_git_of_the_workspace_alone_is_none(vibe: VibeCommand) -> None:
    (vibe.workdir / "git").write_text("#!/bin/sh\nexit 0\n")
    (vibe.workdir / "git").chmod(0o755)
    vibe.environ["PATH"] = str(vibe.workdir)

    told = vibe.process("doctor").out
    assert f"not found ({vibe.workdir}/git is not used, for commands may change what is there)" in told


def test_a_git_hook_lends_nothing_to_commands(vibe: VibeCommand, write_plan: Callable[..., str]) -> None:
    (vibe.workdir / "a.txt").write_text("a\n")
    git(vibe.workdir, "init", "-q")
    git(vibe.workdir, "add", "a.txt")
    git(vibe.workdir, "commit", "-qm", "one")
    lines = (
        "d=$(mktemp -d) && cd $d && git init -q . && echo f >f && git add f && git ls-files && env >$OLDPWD/.git/env"
    )
    plan = write_plan(command_step("a", lines, verify=["! env | grep ^GIT_INDEX_FILE"]))
    hook = vibe.workdir / ".git" / "hooks" / "pre-commit"
    hook.write_text(f"#!/bin/sh\nvibe plan run {plan} >.git/out 2>&1\n")
    hook.chmod(0o755)
    (vibe.workdir / "b.txt").write_text("b\n")

    who = ["-c", "user.name=t", "-c", "user.email=t@t"]
    git(vibe.workdir, "add", "b.txt")
    ended = vibe.run(["git", *who, "commit", "-qm", "two"])

    assert ended.code == 0, (vibe.workdir / ".git" / "out").read_text()
    assert git(vibe.workdir, "ls-tree", "--name-only", "HEAD").split() == ["a.txt", "b.txt"]
    had = {line.partition("=")[0] for line in (vibe.workdir / ".git" / "env").read_text().splitlines()}
    assert not had & {"GIT_DIR", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_WORK_TREE"}
