from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from vibe.system.git.discovery import OddRepositoryError, locate

ENVIRON = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
HASH = "1" * 40

ENTRIES = {
    "a folder": "true",
    "a file": "mv .git ../real; echo gitdir: ../real > .git",
    "a file with an absolute path": 'mv .git ../real; echo "gitdir: $(realpath ../real)" > .git',
    "a file without a line break": "mv .git ../real; printf 'gitdir: ../real' > .git",
    "a blank at its end": "mv .git '../real '; printf 'gitdir: ../real \\n' > .git",
    "another one without the blank": "cp -r .git ../real; mv .git '../real '; printf 'gitdir: ../real \\n' > .git",
    "two lines": "mv .git ../real; printf 'gitdir: ../real\\nx\\n' > .git",
    "a carriage return": "mv .git ../real; printf 'gitdir: ../real\\r\\n' > .git",
    "no blank": "mv .git ../real; printf 'gitdir:../real\\n' > .git",
    "two blanks": "mv .git ../real; printf 'gitdir:  ../real\\n' > .git",
    "a blank before": "mv .git ../real; printf ' gitdir: ../real\\n' > .git",
    "nothing in it": "rm -r .git; touch .git",
    "nowhere": "rm -r .git; echo gitdir: ../nowhere > .git",
    "a link": "mv .git ../real; ln -s ../real .git",
    "a link to a file": "mv .git ../real; echo gitdir: ../real > ../file; ln -s ../file .git",
    "a link to nowhere": "rm -r .git; ln -s ../nowhere .git",
    "a pipe": "rm -r .git; mkfifo .git",
    "nothing": "rm -r .git",
    "an empty folder": "rm -r .git; mkdir .git",
    "a worktree": "cd ../outer; git worktree add -q ../work/tree; cd ../work; rm -r .git; mv tree/.git .git; "
    'echo "$PWD/.git" > ../outer/.git/worktrees/tree/gitdir',
    "itself bare": "mv .git/* .; rm -r .git",
}
WHOLE = ("a folder", "a file", "a link", "a worktree", "itself bare", "two lines")
HEADS = {
    "as it is": "true",
    "a commit": f"echo {HASH} > $G/HEAD",
    "a link": "rm $G/HEAD; ln -s refs/heads/main $G/HEAD",
    "a link to nowhere": "rm $G/HEAD; ln -s refs/heads/none $G/HEAD",
    "a link elsewhere": "mv $G/HEAD $G/H; ln -s H $G/HEAD",
    "none": "rm $G/HEAD",
    "garbage": "echo x > $G/HEAD",
    "no blank": "echo ref:refs/heads/main > $G/HEAD",
    "blanks": "printf 'ref:  \\t refs/heads/main \\n' > $G/HEAD",
    "outside refs": "echo ref: HEAD > $G/HEAD",
}
SHAPES = {
    "as it is": "true",
    "no objects": "rm -r $G/objects",
    "no refs": "rm -r $G/refs",
    "objects a link": "mv $G/objects $G/o; ln -s o $G/objects",
    "shared with another": "echo ../../outer/.git > $G/commondir",
    "shared with another, absolutely": "realpath ../outer/.git > $G/commondir",
    "shared with itself": "echo . > $G/commondir",
    "shared with nothing": "printf '' > $G/commondir",
    "shared by a link": "ln -s ../../outer/.git/HEAD $G/commondir",
}


def run(script: str, folder: Path) -> None:
    subprocess.run(["bash", "-c", script], cwd=folder, env=ENVIRON, capture_output=True, check=False)


def git_finds(folder: Path) -> tuple[Path, ...] | None:
    """Return git's folders as git itself finds them, or None if it finds none or gives up."""
    words = ("git", "rev-parse", "--absolute-git-dir", "--git-common-dir")
    ended = subprocess.run(words, cwd=folder, env=ENVIRON, capture_output=True, text=True, check=False)
    lines = ended.stdout.splitlines()
    return tuple((folder / line).resolve() for line in lines) if ended.returncode == 0 else None


@pytest.mark.parametrize("entry", ENTRIES)
def test_what_is_found_is_what_git_finds(entry: str, tmp_path: Path) -> None:
    template = tmp_path / "template"
    (template / "outer" / "inner").mkdir(parents=True)
    run(
        "git init -q -b main outer; cd outer; git -c user.name=n -c user.email=e commit -q --allow-empty -m 1", template
    )
    shapes = [*((head, "as it is") for head in HEADS), *(("as it is", shape) for shape in SHAPES)]
    for number, (head, shape) in enumerate(shapes if entry in WHOLE else shapes[:2]):
        base = tmp_path / str(number)
        run(f'cp -r "{template}" "{base}"; mkdir "{base}/outer/work"', tmp_path)
        work = base / "outer" / "work"
        run(f"ln -s . ../outer; git init -q -b main; cp -r ../.git/objects ../.git/refs .git; {ENTRIES[entry]}", work)
        git_dir = git_finds(work)
        run(f'G="{git_dir[0] if git_dir else work / ".git"}"; {HEADS[head]}; {SHAPES[shape]}', work)
        try:
            located = locate(work)
        except (OddRepositoryError, OSError):
            continue
        ours = None if located is None else (located.git_dir, located.common_dir)
        assert ours == git_finds(work), (entry, head, shape)


@pytest.mark.parametrize("entry", ["a folder", "a file", "a file with an absolute path", "a worktree", "a link"])
def test_what_git_makes_is_found(entry: str, tmp_path: Path) -> None:
    (tmp_path / "outer").mkdir()
    run("git init -q -b main; git -c user.name=n -c user.email=e commit -q --allow-empty -m 1", tmp_path / "outer")
    work = tmp_path / "work"
    (work / "deep").mkdir(parents=True)
    run(f"git init -q -b main; {ENTRIES[entry]}", work)

    located = locate(work / "deep")

    assert located is not None
    assert (located.top, (located.git_dir, located.common_dir)) == (work, git_finds(work / "deep"))
