from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.shell.policy import shell_lab
from tests.unit.shell.policy.shell_lab import ShellLab
from vibe.core.tools.base import ToolPermission
from vibe.core.tools.workspace import Workspace
from vibe.shell.policy.verdict import DEFAULT_ALLOWED, ConfinedReading, classify

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
    "a head that is a link to nowhere": (
        "git config core.fsmonitor pwn; git branch -q -m x; rm .git/HEAD; ln -s refs/heads/x .git/HEAD",
        "git status",
    ),
    "a link with a blank at its end": (
        (
            "mv .git 'moved '; git --git-dir 'moved ' config core.fsmonitor pwn; git init -q moved; rm -rf moved/.git; "
            "echo 'gitdir: moved ' > .git"
        ),
        "git status",
    ),
    "a folder that is none of git's": (
        "git config core.fsmonitor pwn; mkdir sub/ sub/.git; touch sub/.git/x; cd sub",
        "cd sub && git status",
    ),
    "a merge shown with a driver": (
        (
            "git config log.diffMerges remerge; git config merge.x.driver pwn; echo '*.txt merge=x' > .gitattributes; "
            "git add .; git commit -qm a; git checkout -qb o; echo 1 > a.txt; git commit -qam o; git checkout -q -; "
            "echo 2 > a.txt; git commit -qam m; git merge -q o; git add .; git commit -qm merged"
        ),
        "git log -m -p -1",
    ),
    "settings of the worktree": (
        "git config extensions.worktreeConfig true; git config --worktree core.fsmonitor pwn",
        "git status",
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


SPOKEN_OF = re.compile(
    r"command|cmd|program|helper|hook|pager|editor|askpass|driver|textconv|clean|smudge|process|external|pack$|vcs|browser|"
    r"fsmonitor|tunnel|httpd|alias|include|worktree|server$|summary|filter$",
    re.IGNORECASE,
)
HARMLESS = frozenset({
    "advice.ignoredhook",
    "advice.submodulesnotupdated",
    "advice.waitingforeditor",
    "advice.worktreeaddorphan",
    "branch.name.remote",
    "clean.requireforce",
    "clone.filtersubmodules",
    "color.branch.worktree",
    "column.clean",
    "commit.cleanup",
    "commitgraph.maxnewfilters",
    "commitgraph.readchangedpaths",
    "completion.commands",
    "core.fsmonitorhookversion",
    "diff.driver.wordregex",
    "format.cleanup",
    "fsmonitor.allowremote",
    "fsmonitor.socketdir",
    "gc.worktreepruneexpire",
    "gitcvs.dbdriver",
    "merge.driver.name",
    "merge.driver.recursive",
    "notes.rewrite.command",
    "push.useforceifincludes",
    "rebase.abbreviatecommands",
    "receive.updateserverinfo",
    "remote.name.partialclonefilter",
    "repack.updateserverinfo",
    "sendemail.aliasesfile",
    "sendemail.aliasfiletype",
    "stash.showincludeuntracked",
    "uploadpack.allowfilter",
    "uploadpackfilter.allow",
    "uploadpackfilter.filter.allow",
    "uploadpackfilter.tree.maxdepth",
    "worktree.guessremote",
})
"""Settings that sound as if they named a program, but name none."""


def test_every_setting_git_knows_that_can_name_a_program_is_asked_about(template: ShellLab, tmp_path: Path) -> None:
    lab = shell_lab.copy(template, tmp_path / "lab")
    known = lab.run("git help --config").split()
    spoken = [name for name in known if SPOKEN_OF.search(name) and "." in name and "config" not in name[:4]]
    assert len(spoken) > 40
    unasked: list[str] = []
    for name in spoken:
        plain = re.sub(r"[<>*()]", "", name.replace(".*", ".any"))
        section, _, rest = plain.partition(".")
        subsection, _, key = rest.rpartition(".")
        head = f'[{section} "{subsection}"]' if subsection else f"[{section}]"
        (lab.work / ".git" / "config").write_text(
            f"[core]\n\trepositoryformatversion = 0\n{head}\n\t{key} = !pwn\n".replace(
                "!pwn", "!pwn" if section in {"alias", "submodule"} else "pwn"
            )
        )
        if judge("git status", lab.work) is not None and plain.lower() not in HARMLESS:
            unasked.append(plain)
    assert not unasked


BEHIND_OTHER_DOUBTS = (
    "wc -l $(git ls-files)", "head -1 $(git diff --name-only)", "x=$(git status); echo $x", "ls `git ls-files`", "for f in $(git ls-files); do wc -l $f; done", "if git status; then cat $(ls); fi", "cat <(git ls-files) $(ls)",
    "cat <<E\n$(git ls-files)\nE", "cat <<< \"$(git status)\" $(ls)", "[[ $(git status) ]] && cat $(ls)", "case $(git status) in *) cat $(ls);; esac", "ls | xargs git log", "timeout 5 git status $(ls)", "env git status",
    "echo ${x:-$(git status)}", "git log $(ls)", "git diff $x", "! git status $(ls)", "while read -r f; do git blame \"$f\"; done < a.txt", "git ls-files | while read -r f; do wc -l \"$f\"; done", "cat $(pwd) && git status",
    "git status <<< x", "echo $((1 + $(git rev-list --count HEAD)))", "time git status $(ls)", "(cat $(ls); git status)", "git status | awk '{system(\"x\")}'", "git cherry", "git name-rev $(git rev-parse HEAD)", "git submodule status",
    "find . -exec git log {} +", "command git status", "nice git status", "git ls-files -z | xargs -0 wc -l $(git rev-parse HEAD)", "echo \"${x/a/$(git status)}\"", "uv tree",
)  # fmt: skip
ELSEWHERE = (
    "cd $(echo evilrepo) && git status", "cd evil* && git status", "cd -- evilrepo; git status $(ls)", "env -C evilrepo git status", "ls | xargs -I{} env -C {} git status", "find . -execdir git status {} +", "command cd evilrepo; git status $(ls)",
    "for c in cd ls; do $c evilrepo; done; git status $(ls)", "cd evilrepo && wc -l $(git ls-files)", "wc -l $(cd evilrepo; git ls-files)", "builtin cd evilrepo; git status $(ls)", "env --chdir=evilrepo git status", "cd; git status",
    "time cd evilrepo; git status $(ls)", "if cd evilrepo; then git status; fi", "git -C evilrepo ls-files | xargs cat $(ls)", "cat $(git -C evilrepo ls-files)", "cd \"$(ls)\"; git log",
)  # fmt: skip


@pytest.mark.parametrize("confined", [ConfinedReading.READERS, ConfinedReading.ALL])
def test_a_program_that_git_would_run_stands_behind_no_other_doubt(
    confined: ConfinedReading, template: ShellLab, tmp_path: Path
) -> None:
    lab = shell_lab.copy(template, tmp_path / "lab")
    lab.run("git config core.fsmonitor pwn")
    assert [line for line in BEHIND_OTHER_DOUBTS if _unasked(line, lab, confined)] == []


@pytest.mark.parametrize("confined", [ConfinedReading.READERS, ConfinedReading.ALL])
def test_git_in_another_folder_is_judged_there_or_asked_about(confined: ConfinedReading, template: ShellLab) -> None:
    assert [line for line in ELSEWHERE if _unasked(line, template, confined)] == []


def _unasked(line: str, lab: ShellLab, confined: ConfinedReading) -> bool:
    verdict = classify(line, DEFAULT_ALLOWED, (), workspace=Workspace(root=lab.work), confined=confined)
    return verdict.permission is ToolPermission.ALWAYS or verdict.read_only
