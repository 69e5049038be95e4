from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.core.tools import shell_lab
from tests.unit.core.tools.shell_lab import ShellLab
from vibe.core.tools.base import ToolPermission
from vibe.core.tools.bash_policy import DEFAULT_ALLOWED, classify
from vibe.core.tools.workspace import Workspace

TRAPS = {
    "fsmonitor": ("git config core.fsmonitor pwn", "git status"),
    "external diff": ("git config diff.external pwn", "git diff"),
    "textconv": ("git config diff.x.textconv pwn; echo '*.txt diff=x' > .gitattributes", "git diff"),
    "diff driver": ("git config diff.x.command pwn; echo '*.txt diff=x' > .gitattributes", "git diff"),
    "filter": ("git config filter.x.clean pwn; echo '*.txt filter=x' > .gitattributes; touch a.txt", "git diff"),
    "include": ("git config --file extra core.fsmonitor pwn; git config include.path ../extra", "git status"),
    "hook": ("cp pwn.sh .git/hooks/post-index-change; touch b.txt", "git status"),
    "hooks elsewhere": (
        "mkdir h; cp pwn.sh h/post-index-change; git config core.hooksPath h; touch b.txt",
        "git status",
    ),
    "bare repository": ("cp -r evilgit bare; git -C bare config core.bare true", "cd bare && git status"),
    "worktree": ("git -C . worktree add -q w; git config core.fsmonitor pwn", "cd w && git status"),
    "signature": ("git config log.showSignature true; git config gpg.program pwn", "git log -1"),
    "odd spelling": ("printf '[Core]FsMonitor=pwn\\n' >> .git/config", "git status"),
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> ShellLab:
    return shell_lab.build(tmp_path_factory.mktemp("lab") / "template")


def judge(line: str, root: Path) -> ToolPermission | None:
    return classify(line, DEFAULT_ALLOWED, (), workspace=Workspace(root=root)).permission


@pytest.mark.parametrize("trap", TRAPS)
def test_git_is_asked_about_where_the_repository_names_programs(trap: str, template: ShellLab, tmp_path: Path) -> None:
    set_up, line = TRAPS[trap]
    lab = shell_lab.copy(template, tmp_path / "lab")
    assert judge("git status", lab.work) is ToolPermission.ALWAYS
    lab.run(set_up)
    (lab.base / "canary").unlink(missing_ok=True)
    assert judge(line, lab.work) is None
    lab.run(line)
    if trap not in {"signature", "bare repository", "filter"}:
        assert (lab.base / "canary").exists(), "the trap does not even work"


def test_git_lfs_and_an_ordinary_configuration_are_no_trap(template: ShellLab, tmp_path: Path) -> None:
    lab = shell_lab.copy(template, tmp_path / "lab")
    (lab.work / ".git" / "config").write_text(
        '[core]\n\trepositoryformatversion = 0\n\tbare = false\n[remote "origin"]\n\turl = https://x.example/y.git\n'
        '\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch "main"]\n\tremote = origin\n\tmerge = refs/heads/main\n'
        '[filter "lfs"]\n\tclean = git-lfs clean -- %f\n\tsmudge = git-lfs smudge -- %f\n'
        "\tprocess = git-lfs filter-process\n\trequired = true\n[user]\n\tname = me\n"
    )
    assert judge("git status && git diff", lab.work) is ToolPermission.ALWAYS


def test_an_absolute_path_inside_is_fine_and_one_outside_is_not(template: ShellLab) -> None:
    assert judge(f"cat {template.work}/a.txt", template.work) is ToolPermission.ALWAYS
    assert judge(f"cd {template.work} && git status", template.work) is ToolPermission.ALWAYS
    assert judge(f"cat {template.base}/outside/secret.txt", template.work) is None
    assert judge("cat src/../a.txt", template.work) is ToolPermission.ALWAYS
