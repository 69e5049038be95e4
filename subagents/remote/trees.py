"""Sends trees between a run and its workers, as commits without parents, in packs of what the other end lacks.

The same tree is the same commit everywhere, and no history is sent. All functions block, so call them in a thread.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from subagents.process.protocol import LinkError
from subagents.worktree.errors import on_disk
from subagents.worktree.repository import Git, Repository
from subagents.worktree.worktree import Worktree
from vibe.system.files import text_of
from vibe.system.git.discovery import LocatedRepository
from vibe.system.git.shelter import take_shelter

AUTHOR = "vibe <vibe@localhost> 0 +0000"
COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
WORKERS_REF = "refs/vibe"
MOST_COMMITS = 8
"""Commits of a worker, the newest, on which a pack may build."""
CHECKPOINT_INDEX = "vibe-checkpoint"
"""The name of the copy of a worktree's index in which its files are recorded."""


def checked_commit(name: str) -> str:
    """Return the name of a commit that came from another machine.

    Raises:
        LinkError: it is something else, such as a ref.
    """
    if not COMMIT.fullmatch(name):
        raise LinkError(f"not the name of a commit: {name[:80]!r}")
    return name


def commit_without_parents(repository: Repository, tree: str) -> str:
    """Write the commit of a tree and return its name."""
    body = f"tree {tree}\nauthor {AUTHOR}\ncommitter {AUTHOR}\n\nvibe\n".encode()
    whole = b"commit %d\0%s" % (len(body), body)
    digest = hashlib.sha1(whole, usedforsecurity=False) if len(tree) == 40 else hashlib.sha256(whole)
    name = digest.hexdigest()
    path = repository.common_dir / "objects" / name[:2] / name[2:]
    if not path.exists():
        draft = path.with_name(f"tmp_obj_{secrets.token_hex(8)}")
        with on_disk(path):
            path.parent.mkdir(exist_ok=True)
            draft.write_bytes(zlib.compress(whole))
            draft.chmod(0o444)
            draft.replace(path)
    return name


def commit_of(worktree: Worktree) -> str:
    """Return a commit of a worktree's files as they are now.

    Raises:
        WorktreeError: Git or the disk refuses, or the worktree holds something that can't be committed.
    """
    return commit_without_parents(worktree.repository, worktree.tree(index=CHECKPOINT_INDEX))


def commit_at_head(worktree: Worktree, known_trees: dict[str, str]) -> str:
    """Return a commit of a new worktree's files, which are those of its branch.

    ``known_trees`` maps commits to their trees, to save calls of git; this commit is added.

    Raises:
        WorktreeError: Git or the disk refuses.
    """
    folder, admin = worktree.repository.common_dir, worktree.admin_folder()
    head = text_of(admin / "HEAD").strip().removeprefix("ref: ") if admin is not None else ""
    commit = text_of(folder / head).strip()
    tree = known_trees.get(commit, "")
    with suppress(OSError, zlib.error):  # git has just written it here, so usually no call is needed
        data = zlib.decompress((folder / "objects" / commit[:2] / commit[2:]).read_bytes())
        tree = data.partition(b"\0tree ")[2][: len(commit)].decode("ascii", "replace")
    if not COMMIT.fullmatch(tree):
        tree = worktree.git("rev-parse", "HEAD^{tree}").text
    if commit:
        known_trees[commit] = tree
    return commit_without_parents(worktree.repository, tree)


def pack(git: Git, commit: str, have: Iterable[str] = ()) -> bytes:
    """Return a pack of what a repository with the commits ``have`` lacks of ``commit``.

    Raises:
        GitFailedError: Git refuses.
    """
    revisions = "\n".join([commit, *(f"^{one}" for one in have), ""])
    words = ("pack-objects", "--revs", "--thin", "--shallow", "--stdout", "-q", "--delta-base-offset")
    return git(*words, stdin=revisions.encode()).out


def unpack(git: Git, data: bytes, *, most: int, strict: bool = False) -> None:
    """Add a pack's objects to a repository. With ``strict``, as for those of a worker, each is checked.

    Raises:
        GitFailedError: they are damaged, more than ``most`` bytes, or refused.
    """
    checks = ("--strict",) if strict else ()
    git("index-pack", "--stdin", "--fix-thin", f"--max-input-size={most}", *checks, stdin=data)


def check_out(worktree: Worktree, commit: str) -> None:
    """Change a worktree's files to those of a commit, without moving its branch or removing ignored files.

    Raises:
        GitFailedError: Git refuses.
    """
    worktree.git("read-tree", "-u", "--reset", f"{commit}^{{tree}}")


def project_name(repository: Repository) -> str:
    """Return the name that a project has on all machines: its first commit.

    Raises:
        GitFailedError: Git refuses.
    """
    return repository.git("rev-list", "--max-parents=0", "HEAD").text.splitlines()[-1]


def open_project(folder: Path, commit: str, environ: Mapping[str, str]) -> Repository:
    """Return a worker's bare repository of a project, made if it does not exist, with the kind of hash of ``commit``.

    Git uses settings of our own, whatever a step writes into those of the repository.

    Raises:
        WorktreeError: Git or the disk refuses.
    """
    kind = "sha1" if len(commit) == 40 else "sha256"
    quiet = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    own = {**environ, **quiet}
    with on_disk(folder, "made"):
        if not (folder / "HEAD").is_file():
            folder.mkdir(parents=True, exist_ok=True)
            Git(folder=folder, environ=own)("init", "--bare", "-q", f"--object-format={kind}", ".")
        (folder / "logs").mkdir(exist_ok=True)
        (folder / WORKERS_REF).mkdir(parents=True, exist_ok=True)
        located = LocatedRepository(top=folder, git_dir=folder, common_dir=folder)
        shelter = take_shelter(located, own, folder.parent / "git", programs=False)
    git = Git(folder=folder, environ={**shelter.here(), **quiet})
    made = Repository(
        git=git, workspace=folder, top=folder, git_dir=folder, common_dir=folder, prefix="", hash_name=kind,
        keep=folder.parent,
    )  # fmt: skip
    made.scratch.mkdir(exist_ok=True)
    return made


def known_commits(folder: Path) -> list[str]:
    """Return the newest commits of a project that a worker has, in the bare repository at ``folder``."""
    refs = sorted((folder / WORKERS_REF).glob("*"), key=lambda ref: ref.stat().st_mtime_ns)
    return [ref.name for ref in refs[-MOST_COMMITS:]]


def note_commit(repository: Repository, commit: str) -> None:
    """Record that a worker has a commit with its whole tree, and that the project was used now."""
    (repository.common_dir / WORKERS_REF / commit).write_text(f"{commit}\n")
    os.utime(repository.common_dir)


def has_tree(repository: Repository, commit: str) -> bool:
    """Return whether a worker noted a commit and seems to have its tree still."""
    noted = (repository.common_dir / WORKERS_REF / commit).is_file()
    return noted and repository.git.ask("cat-file", "-e", f"{commit}^{{tree}}").code == 0
