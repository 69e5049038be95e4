"""Programs that somebody with write access to a repository names for git, before or while steps have worktrees."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from subagents.worktree.errors import WorktreeRefusedError
from tests.fakes.swapping import swapping
from tests.integration.subagents.worktree.rig import EditingExecutor, Rig, environment, git, run, worktree_task, writes
from vibe.core.messages import NeverStop, Outcome

INNER = (
    "mkdir inner; cd inner; git init -q .; echo '* filter=x' > .gitattributes; echo 1 > f; git add .; "
    'git -c user.name=n -c user.email=n commit -qm 1; git config {} "$RUN"; touch -d yesterday f; cd ..; '
    "git -c advice.addEmbeddedRepo=false add inner"
)
FILTER = "echo '* filter=x merge=x diff=x' > .git/info/attributes; "
FAKE = 'mkdir -p fake/refs; cp -r .git/objects fake; cp .git/config fake/config; git config -f fake/config {} "$RUN"; '


@dataclass(frozen=True, kw_only=True)
class Trap:
    """Shell scripts that act on the repository ``before`` it is opened, and ``during`` the work of a step.

    ``live`` is the command that sets the trap off where nothing guards against it.
    """

    before: str = "true"
    during: str = "true"
    live: str = "git add --all; git status"


TRAPS = {
    "a filter of a repository within": Trap(before=INNER.format("filter.x.clean"), live="git -C inner status"),
    "a file system monitor of a repository within": Trap(before=INNER.format("core.fsmonitor"), live="git -C inner status"),
    "a repository within, added meanwhile": Trap(
        during=INNER.format("filter.x.clean"), live="touch -d 2001-01-01 inner/f; git -C inner status"
    ),
    "another common folder meanwhile": Trap(
        during=FILTER + FAKE.format("filter.x.clean") + 'echo "$PWD/fake" > .git/commondir',
        live="mkdir -p fake/info; cp .git/info/attributes fake/info; git add --all",
    ),
    "a filter in the configuration meanwhile": Trap(during=FILTER + 'git config filter.x.clean "$RUN"'),
    "a smudge filter meanwhile": Trap(
        during=FILTER + 'git config filter.x.smudge "$RUN"', live="rm a.txt; git checkout a.txt"
    ),
    "a long-running filter meanwhile": Trap(during=FILTER + 'git config filter.x.process "$RUN"'),
    "a merge driver meanwhile": Trap(
        during=FILTER + 'git config merge.x.driver "$RUN"; echo user > b.txt; git commit -qam user',
        live="git checkout -q -b o HEAD~; echo o > b.txt; git commit -qam o; git merge main || true",
    ),
    "a file system monitor meanwhile": Trap(during='git config core.fsmonitor "$RUN"'),
    "settings of this worktree": Trap(
        during=FILTER + 'git config extensions.worktreeConfig true; git config --worktree filter.x.clean "$RUN"'
    ),
    "settings of this worktree, before": Trap(
        before=FILTER + 'git config extensions.worktreeConfig true; git config --worktree filter.x.clean "$RUN"'
    ),
    "an included file": Trap(
        before=FILTER + "git config -f extra filter.x.clean true; git config include.path ../extra",
        during='git config -f extra filter.x.clean "$RUN"',
    ),
    "a hook of references": Trap(
        during='printf "#!/bin/sh\\n$RUN" > .git/hooks/reference-transaction; chmod +x .git/hooks/reference-transaction',
        live="git branch other",
    ),
    "a hook of the index": Trap(
        during='printf "#!/bin/sh\\n$RUN" > .git/hooks/post-index-change; chmod +x .git/hooks/post-index-change'
    ),
    "hooks elsewhere": Trap(
        during='mkdir h; printf "#!/bin/sh\\n$RUN" > h/post-index-change; chmod +x h/*; git config core.hooksPath h'
    ),
    "another repository in the worktree": Trap(
        during=FAKE.format("filter.x.clean") + 'mkdir fake/info; echo "* filter=x" > fake/info/attributes; '
        'cp .git/HEAD fake; rm -f "$WORK/.git"; echo "gitdir: $PWD/fake" > "$WORK/.git"',
        live='GIT_DIR=fake git add --all',
    ),
    "another repository for the worktree": Trap(
        during=FAKE.format("filter.x.clean") + 'mkdir fake/info; echo "* filter=x" > fake/info/attributes; '
        'for a in .git/worktrees/*; do echo "$PWD/fake" > $a/commondir; done',
        live='cp .git/HEAD fake; GIT_DIR=fake git add --all',
    ),
}  # fmt: skip


def shell(rig: Rig, script: str, work: Path | None = None) -> None:
    """Run a script in the repository. ``$RUN`` is a command that leaves a trace."""
    canary = {"RUN": f"touch {rig.base}/ran; cat", "WORK": str(work or "")}
    subprocess.run(
        ["bash", "-c", script], cwd=rig.root, env={**environment(), **canary}, capture_output=True, check=False
    )


@pytest.mark.parametrize("trap", TRAPS.values(), ids=TRAPS)
@pytest.mark.parametrize("programs", [False, True], ids=["untrusted", "trusted"])
async def test_git_runs_nothing_that_who_writes_in_the_repository_chose(
    tmp_path: Path, trap: Trap, *, programs: bool
) -> None:
    rig = Rig(tmp_path, programs=programs).create({"a.txt": "a\n", "b.txt": "b\n", "c.txt": "c\n"})
    shell(rig, trap.before)
    ran = tmp_path / "ran"
    ran.unlink(missing_ok=True)  # setting a trap may set it off

    def edit(folder: Path) -> None:
        (folder / "a.txt").write_text("step\n")
        (folder / "b.txt").write_text("step\n")
        shell(rig, trap.during, folder)
        ran.unlink(missing_ok=True)

    def resolve(folder: Path) -> None:
        (folder / "b.txt").write_text("both\n")

    resolving = {f"{step}:merge{number}": resolve for step in ("s", "t") for number in (1, 2, 3)}
    async with rig.executor(EditingExecutor({"s": edit, "t": edit, **resolving})) as executor:
        for step_id in ("s", "t"):
            result = await executor.run(worktree_task(step_id), NeverStop())
            assert result.outcome in {Outcome.COMPLETED, Outcome.FAILED}
            assert not ran.exists(), result
    shell(rig, trap.live)
    assert ran.exists(), "the trap was none"


@pytest.mark.parametrize("programs", [False, True], ids=["untrusted", "trusted"])
def test_a_linked_worktree_that_names_another_repository_is_refused(tmp_path: Path, *, programs: bool) -> None:
    rig = Rig(tmp_path, programs=programs).create({"a.txt": "a\n"})
    shell(rig, "git worktree add -q ../linked; " + FAKE.format("core.fsmonitor"))
    shell(rig, 'echo "$PWD/fake" > .git/worktrees/linked/commondir')
    rig.workspace = "../linked"

    with pytest.raises(WorktreeRefusedError, match="names a folder git would not use"):
        rig.repository()

    assert not (tmp_path / "ran").exists()


async def test_a_filter_of_the_configuration_itself_works_where_it_is_trusted(tmp_path: Path) -> None:
    rig = Rig(tmp_path, programs=True).create({"a.txt": "a\n", ".gitattributes": "*.txt filter=x\n"})
    shell(
        rig, "git config filter.x.clean 'tr a-z A-Z'; git config filter.x.smudge 'tr A-Z a-z'; git add --renormalize ."
    )
    rig.commit("in capitals")

    result = await run(rig, writes("b.txt", "new\n"))

    assert (result.outcome, rig.read("b.txt")) == (Outcome.COMPLETED, "new\n")
    assert git(rig.root, "cat-file", "blob", "HEAD:b.txt") == "NEW\n"


@pytest.mark.parametrize("deleted", [False, True], ids=["written", "deleted"])
async def test_a_folder_that_is_swapped_for_a_link_during_a_merge_leads_nowhere(
    tmp_path: Path, *, deleted: bool
) -> None:
    rig = Rig(tmp_path).create({"d/a.txt": "a\n", "d/b.txt": "b\n", "c.txt": "c\n"})
    outside, link = tmp_path / "outside", rig.root / ".git" / "link"
    outside.mkdir()
    (outside / "a.txt").write_text("not theirs\n")
    link.symlink_to(outside)

    def edit(folder: Path) -> None:
        writes("c.txt", "step\n")(folder)
        (folder / "d" / "a.txt").unlink() if deleted else writes("d/a.txt", "step\n")(folder)

    with swapping(rig.root / "d", link, once=f"{rig.root}/.git/vibe*/*index"):  # made between check and use
        result = await run(rig, edit)

    assert {path.name: path.read_text() for path in outside.iterdir()} == {"a.txt": "not theirs\n"}
    assert result.outcome is not Outcome.COMPLETED
