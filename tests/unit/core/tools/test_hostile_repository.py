from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.core.tools import shell_lab
from tests.unit.core.tools.shell_lab import ShellLab
from vibe.core.tools.base import ToolPermission
from vibe.core.tools.bash_policy import DEFAULT_ALLOWED, classify
from vibe.core.tools.workspace import Workspace

EVIL = "printf '[core]\\nfsmonitor = pwn\\n' > evil.cfg; "
PARTIAL = (
    "blob=$(git rev-parse HEAD~1:b.txt); rm -f .git/objects/${blob:0:2}/${blob:2}; git config core.repositoryFormatVersion 1; "
    "git config extensions.partialClone o; git config remote.o.promisor true; "
)
FETCH = "git show HEAD~1:b.txt"

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
    "after a comment that ends in a backslash": (
        "printf '[core]\\n# x \\\\\\nfsmonitor = pwn\\n' >> .git/config",
        "git status",
    ),
    "two sections on a line": (f"{EVIL}printf '[a] [include] path = ../evil.cfg\\n' >> .git/config", "git status"),
    "a filter on the line of its section": (
        "echo '*.txt filter=x' > .gitattributes; printf '[a] [filter \"x\"] clean = pwn\\n' >> .git/config; touch a.txt",
        "git diff",
    ),
    "a byte order mark": (
        f"{EVIL}printf '\\xef\\xbb\\xbf[include]\\n path = ../evil.cfg\\n' > c; cat .git/config >> c; mv c .git/config",
        "git status",
    ),
    "another folder for what is common": (
        "cp -r .git common; git config -f common/config core.fsmonitor pwn; echo ../common > .git/commondir",
        "git status",
    ),
    "a repository within": ("git -C evilrepo config core.fsmonitor pwn; git add evilrepo", "git status"),
    "a repository within, by a link": (
        "git -C evilrepo config core.fsmonitor pwn; git add evilrepo; mv evilrepo/.git moved; echo gitdir: ../moved > evilrepo/.git",
        "git diff",
    ),
    "objects fetched on demand": (f"{PARTIAL}git config remote.o.url ./x; git config remote.o.uploadpack pwn", FETCH),
    "objects fetched by a helper": (
        f'{PARTIAL}git config protocol.ext.allow always; git config remote.o.url "ext::pwn x"',
        FETCH,
    ),
    "objects fetched through a proxy": (
        f"{PARTIAL}git config core.gitProxy pwn; git config remote.o.url git://localhost/y",
        FETCH,
    ),
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


@pytest.mark.parametrize(
    "config", ["[core", "[core]\nname", '[core]\nx = "y', "[core]\n= x", "[core]\nx = \\q", "[a]\n\tb c\n"]
)
def test_a_configuration_that_is_not_understood_is_asked_about(config: str, template: ShellLab, tmp_path: Path) -> None:
    lab = shell_lab.copy(template, tmp_path / "lab")
    (lab.work / ".git" / "config").write_text(config)
    assert (judge("git status", lab.work) is None) is (config != "[core]\nname")


def test_a_submodule_that_chooses_nothing_is_no_trap(template: ShellLab, tmp_path: Path) -> None:
    lab = shell_lab.copy(template, tmp_path / "lab")
    lab.run("git -C evilrepo config --unset core.fsmonitor; git add evilrepo")
    assert judge("git status", lab.work) is ToolPermission.ALWAYS


def test_an_absolute_path_inside_is_fine_and_one_outside_is_not(template: ShellLab) -> None:
    assert judge(f"cat {template.work}/a.txt", template.work) is ToolPermission.ALWAYS
    assert judge(f"cd {template.work} && git status", template.work) is ToolPermission.ALWAYS
    assert judge(f"cat {template.base}/outside/secret.txt", template.work) is None
    assert judge("cat src/../a.txt", template.work) is ToolPermission.ALWAYS
