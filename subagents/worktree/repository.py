"""The user's repository as worktree steps use it: its location, its state, and commits of its files."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct, structs

from subagents.worktree.errors import GitFailedError, WorktreeRefusedError, name_some
from vibe.system.files import is_open
from vibe.system.git.calls import GitCall, GitOutput, git_environ, run_git
from vibe.system.git.discovery import BARE, LocatedRepository, OddRepositoryError, locate, small_text
from vibe.system.git.shelter import take_shelter
from vibe.system.own_places import NO_OWN_PLACES, OwnPlaces
from vibe.system.plain_text import counted
from vibe.system.programs import find_program, shunned


def sort_by_state(top: Path, paths: Iterable[str]) -> tuple[list[str], list[str], list[str]]:
    """Return the paths below ``top`` without a file or link, those with a readable one, and the unreadable."""

    @cache
    def is_reached(parent: Path) -> bool:
        """Return whether ``parent`` is reached from ``top`` without following a link."""
        return parent == top or (is_reached(parent.parent) and not os.path.islink(parent))

    missing, present, unreadable = list[str](), list[str](), list[str]()
    for path in paths:
        file = top / path
        try:
            mode = file.lstat().st_mode if is_reached(file.parent) else 0
        except (FileNotFoundError, NotADirectoryError):
            mode = 0
        except OSError:
            unreadable.append(path)
            continue
        if stat.S_ISREG(mode) and not is_open(file, os.R_OK):
            unreadable.append(path)
        else:
            (present if stat.S_ISREG(mode) or stat.S_ISLNK(mode) else missing).append(path)
    return missing, present, unreadable


def stdin_of(paths: Iterable[str]) -> bytes:
    """Return the paths as input for a git command with ``-z --stdin``."""
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


OLDEST = (2, 38)
"""The oldest version of git that works: the first with ``merge-tree --write-tree``."""


class Git(Struct, frozen=True, kw_only=True):
    """Git in one folder. Every call blocks, so make it in a thread.

    ``environ`` is the complete environment (see ``git_environ``). ``locks`` are descriptors that a command keeps open
    while it runs, so that a lock is held until the command ends, even if this process ends before.
    """

    folder: Path
    environ: Mapping[str, str]
    locks: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return f"Git(folder={self.folder!r})"  # the environment may hold keys

    def at(self, folder: Path, git_dir: Path) -> Git:
        """Return the same git in another worktree of the repository, whose folder inside that is ``git_dir``."""
        where = {"GIT_DIR": str(git_dir), "GIT_WORK_TREE": str(folder)}
        return structs.replace(self, folder=folder, environ={**self.environ, **where})

    def __call__(self, *words: str, stdin: bytes = b"", index: Path | None = None) -> GitOutput:
        """Run a command that has to succeed, with ``index`` instead of the folder's own if given.

        Raises:
            GitFailedError: the command failed.
        """
        answer = self.ask(*words, stdin=stdin, index=index)
        if answer.code != 0:
            raise GitFailedError(words, self.folder, answer.problem)
        return answer

    def ask(self, *words: str, stdin: bytes = b"", index: Path | None = None) -> GitOutput:
        """Run a command and return its output, whether or not it succeeds.

        Raises:
            GitFailedError: the command can't be started or takes too long.
        """
        environ = self.environ if index is None else {**self.environ, "GIT_INDEX_FILE": str(index)}
        call = GitCall(words=words, folder=self.folder, environ=environ, stdin=stdin, locks=self.locks)
        try:
            return run_git(call)
        except subprocess.TimeoutExpired as error:
            raise GitFailedError(words, self.folder, f"it took longer than {call.seconds:.0f} s") from error
        except OSError as error:
            if not os.path.isdir(self.folder):
                raise GitFailedError(words, self.folder, "the folder does not exist") from error
            raise GitFailedError(words, self.folder, error.strerror or str(error)) from error


def git_version(git: Git) -> tuple[int, ...]:
    """Return the numbers of git's version, or an empty tuple if it is unknown.

    Raises:
        GitFailedError: Git can't be started.
    """
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", git("version").text)
    return tuple(int(number) for number in found.groups() if number) if found else ()


UNDER_WAY = (
    ("MERGE_HEAD", "a merge"), ("rebase-merge", "a rebase"), ("rebase-apply", "a rebase"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"), ("REVERT_HEAD", "a revert"), ("BISECT_LOG", "a bisect"),
)  # fmt: skip
"""Entries in git's folder that show that something is in progress, and what."""

SCRATCH = "vibe-merge"
"""The folder that vibe makes inside git's own during a merge."""

BYTECODE = "--exclude=__pycache__/"
"""Leaves new bytecode out of a step's work, also where git does not ignore it: Python writes it into any check."""

SNAPSHOT_TRIES = 3
"""Attempts at a snapshot. Files may come and go meanwhile, because a step in the shared workspace may be at work."""

DETACHED = ""
"""The ``ref`` of a detached HEAD."""
DETACHED_HEAD = "a detached HEAD"
"""The name of one in messages."""
ABSENT = "000000"
"""The mode of a path that has no entry."""
GITLINK = "160000"
"""The mode of a submodule's entry."""


class Base(Struct, frozen=True, kw_only=True):
    """The commit that a step starts from, made on ``head``, the commit that ``ref`` (blank if detached) was at.

    ``commit`` and ``head`` are the same unless the working tree had uncommitted changes. ``left_out`` are paths that
    could not be read there.
    """

    commit: str
    head: str
    ref: str
    left_out: tuple[str, ...] = ()


class Change(Struct, frozen=True, array_like=True):
    """A path whose entry changes from one mode and object to another. Mode ``000000`` means that there is no entry."""

    path: str
    old_mode: str
    old: str
    new_mode: str
    new: str


class RepositoryState(Struct, frozen=True, kw_only=True):
    """HEAD, and the paths that differ from it: in the index (``staged``), and anywhere (``dirty``).

    An untracked folder, with a ``/`` at its end, represents everything in it.
    """

    head: str
    ref: str
    staged: frozenset[str]
    dirty: tuple[str, ...]
    unmerged: bool


class Repository(Struct, frozen=True, kw_only=True):
    """A repository and the workspace in it. All methods block, so call them in a thread.

    ``prefix`` is the workspace's path from ``top``: empty, or with a ``/`` at its end. ``own`` are places of vibe's,
    which don't belong to the user's work even if they lie below ``top``. ``keep`` is the folder with the settings that
    git uses (see ``take_shelter``). ``left_out`` are settings of the repository that are ignored, because they would
    make git run programs. ``share`` are paths of the workspace to which worktrees get links.
    """

    git: Git
    workspace: Path
    top: Path
    git_dir: Path
    common_dir: Path
    prefix: str
    hash_name: str
    keep: Path
    own: OwnPlaces = NO_OWN_PLACES
    left_out: tuple[str, ...] = ()
    share: tuple[str, ...] = ()

    @property
    def outside(self) -> tuple[str, ...]:
        """Pathspecs that exclude the files of vibe's own."""
        return tuple(f":(top,exclude,literal){path}" for path in _below(self.top, self.own.below(self.top)))

    @property
    def scratch(self) -> Path:
        """The folder that vibe uses inside git's own."""
        return self.git_dir / SCRATCH

    def state(self) -> RepositoryState:
        """Return the state of the repository now."""
        words = ("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal", "--no-renames")
        return parse_status(self.git(*words, "--ignore-submodules=all", "--", ":/", *self.outside).items)

    def busy_with(self) -> str:
        """Return what is in progress in the repository, such as "a merge", or an empty string."""
        return next((words for name, words in UNDER_WAY if os.path.exists(self.git_dir / name)), "")

    def snapshot(self) -> tuple[str, tuple[str, ...]]:
        """Return the tree of all files as they are now, except ignored ones, and the paths that can't be read.

        Unreadable paths are in the tree as they are in the index, if there. The user's index is only read.
        """
        index = self.scratch / "snapshot"
        unreadable: tuple[str, ...] = ()
        for tries in range(1, SNAPSHOT_TRIES + 1):
            if os.path.isfile(self.git_dir / "index"):
                shutil.copy2(self.git_dir / "index", index)  # its date tells git which files to read again
            try:
                _, unreadable = self.record(self.git, self.outside, index=index)
            except GitFailedError:
                if tries == SNAPSHOT_TRIES:
                    raise
            else:
                break
        return self.git("write-tree", index=index).text, unreadable

    def record(
        self, git: Git, outside: Sequence[str] = (), index: Path | None = None
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Put all new and changed files of a worktree into an index.

        Return the repositories found among them, and the paths that can't be read.

        This doesn't use ``git add``, which would look for changes in nested repositories and so run the programs that
        their settings name.
        """
        words = ("ls-files", "-z", "--modified", "--others", "--exclude-standard", "--deduplicate", BYTECODE)
        answer = git(*words, "--", ":/", *outside, index=index)
        found = answer.items
        nested = tuple(path.rstrip("/") for path in found if path.endswith("/"))
        missing, present, unreadable = sort_by_state(git.folder, (path for path in found if not path.endswith("/")))
        gitlinks = self.gitlinks(git, index) if any(os.path.isdir(git.folder / path) for path in missing) else {}
        missing = [path for path in missing if path not in gitlinks]
        if missing:  # first, to make room for the others
            git("update-index", "-z", "--force-remove", "--stdin", stdin=stdin_of(missing), index=index)
        if present:
            git("update-index", "-z", "--add", "--remove", "--replace", "--stdin", stdin=stdin_of(present), index=index)
        return nested, (*unreadable, *answer.closed)

    def gitlinks(self, git: Git, index: Path | None = None) -> dict[str, str]:
        """Return the paths of the submodules in an index, with their commits."""
        items = git("ls-files", "-z", "--stage", "--", ":/", index=index).items
        return {item.partition("\t")[2]: item.split(" ", 2)[1] for item in items if item.startswith(GITLINK)}

    def changes(self, before: str, after: str) -> tuple[Change, ...]:
        """Return the changes between two trees or commits."""
        words = self.git("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", before, after).items
        return tuple(_change(raw, path) for raw, path in zip(words[0::2], words[1::2], strict=True))

    def commit(self, tree: str, parents: Sequence[str], message: str) -> str:
        """Write a commit without moving a branch, and return its name."""
        words = [word for parent in parents for word in ("-p", parent)]
        return self.git("commit-tree", tree, *words, "-F", "-", stdin=message.encode()).text

    def update_index(self, index: Path, changes: Sequence[Change]) -> None:
        """Put the new entries of ``changes`` into an index file.

        All paths are removed first, to make room, and because git 2.39 may otherwise add a file beside the folder that
        represents it in a sparse index.
        """
        lines = [b"0 %s\t%s\0" % (c.old.encode(), os.fsencode(c.path)) for c in changes]
        come = (c for c in changes if c.new_mode != ABSENT)
        lines += [b"%s %s\t%s\0" % (c.new_mode.encode(), c.new.encode(), os.fsencode(c.path)) for c in come]
        self.git("update-index", "-z", "--index-info", stdin=b"".join(lines), index=index)

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Return whether ``newer`` is ``older`` or a descendant of it."""
        return older == newer or self.git.ask("merge-base", "--is-ancestor", older, newer).code == 0

    def from_workspace(self, path: str) -> str:
        """Return a path below ``top`` as a path relative to the workspace."""
        return path.removeprefix(self.prefix) if path.startswith(self.prefix) else os.path.relpath(path, self.prefix)


def open_repository(
    workspace: Path, environ: Mapping[str, str], keep: Path, *, own: OwnPlaces = NO_OWN_PLACES, programs: bool = False
) -> Repository:
    """Return the repository of a workspace, if worktree steps can run there; ``own`` are places that hold no work.

    For ``keep`` and ``programs`` see ``take_shelter``.

    Raises:
        WorktreeRefusedError: there is no git, no repository with a working tree, or no commit yet.
    """
    located = find_repository(workspace, environ)
    try:
        shelter = take_shelter(located, environ, keep, programs=programs)
        (located.common_dir / "logs").mkdir(exist_ok=True)  # the shelter links here, and git would not make it
    except OSError as error:
        problem = f"{error.filename or keep} can't be written ({error.strerror})"
        raise WorktreeRefusedError(workspace, problem, "check free space and permissions there") from error
    except (ValueError, subprocess.TimeoutExpired) as error:
        raise WorktreeRefusedError(workspace, str(error), "check `git config --list`") from error
    git = Git(folder=located.top, environ=shelter.here())
    hash_name = git("rev-parse", "--show-object-format").text
    _check_head(workspace, located, git)
    prefix = Path(os.path.realpath(workspace)).relative_to(located.top).as_posix()
    return Repository(
        git=structs.replace(git, environ={**git.environ, **_identity(git, located.common_dir)}),
        workspace=workspace,
        top=located.top,
        git_dir=located.git_dir,
        common_dir=located.common_dir,
        prefix="" if prefix == "." else f"{prefix}/",
        hash_name=hash_name,
        keep=keep,
        left_out=shelter.left_out,
        own=own,
    )


def find_repository(workspace: Path, environ: Mapping[str, str]) -> LocatedRepository:
    """Return the location of a workspace's repository.

    Raises:
        WorktreeRefusedError: there is no git, or no repository with a working tree.
    """
    if not os.path.isdir(workspace):
        raise WorktreeRefusedError(workspace, "the folder does not exist", "restore it, or run the plan elsewhere")
    own = git_environ(environ, workspace)
    if find_program("git", own) is None:
        problem = f"git is not installed{shunned('git', environ)}"
        raise WorktreeRefusedError(workspace, problem, f"install git {OLDEST[0]}.{OLDEST[1]} or later")
    version = git_version(Git(folder=workspace, environ=own))
    if version < OLDEST:
        found = ".".join(map(str, version)) or "of an unknown version"
        raise WorktreeRefusedError(workspace, f"git {found} is too old", f"install {OLDEST[0]}.{OLDEST[1]} or later")
    try:
        located = locate(workspace)
    except OddRepositoryError as error:
        if error.problem == BARE:
            inside = any(place.name == ".git" for place in (error.path, *error.path.parents))
            problem = "it is inside a .git folder" if inside else "it is a bare repository"
            raise WorktreeRefusedError(workspace, problem, "run the plan in a working tree") from error
        raise WorktreeRefusedError(workspace, str(error), "check `git status`") from error
    except OSError as error:
        problem = f"{str(error.filename)!r} can't be read ({error.strerror})"
        raise WorktreeRefusedError(workspace, problem, "check its permissions") from error
    if located is None:
        fix = "make it a git repository with a commit, or use workspace 'shared'"
        raise WorktreeRefusedError(workspace, "it is not a git repository", fix)
    return located


def _check_head(workspace: Path, located: LocatedRepository, git: Git) -> None:
    """Check that there is a commit and that it can be read.

    Raises:
        WorktreeRefusedError: there is none, or it can't be read.
    """
    named = git.ask("rev-parse", "--verify", "--quiet", "HEAD")
    branch = small_text(located.git_dir / "HEAD").removeprefix("ref:").strip()
    if named.code != 0 and not os.path.exists(located.common_dir / branch):
        raise WorktreeRefusedError(workspace, "the repository has no commit yet", "make a first commit")
    read = git.ask("cat-file", "-e", f"{named.text or 'HEAD'}^{{tree}}")
    if read.code != 0:
        problem = f"its last commit can't be read ({read.problem})"
        raise WorktreeRefusedError(workspace, problem, "check `git fsck`")


def check_startable(repository: Repository, *, allow_dirty: bool, not_counted: Sequence[Path] = ()) -> None:
    """Check that a plan with worktree steps may start; new files in ``not_counted`` are ignored.

    Raises:
        WorktreeRefusedError: something is in progress, there are uncommitted changes without ``allow_dirty``, a branch
            is in the way of ours, or files are missing that git would have to fetch over a protocol that we disable.
    """
    workspace, busy = repository.workspace, repository.busy_with()
    if busy:
        raise WorktreeRefusedError(workspace, f"{busy} is in progress in the repository", "finish or abort it first")
    state = repository.state()
    if state.unmerged:
        raise WorktreeRefusedError(workspace, "the repository has unresolved conflicts", "resolve them first")
    dirty = [path for path in state.dirty if path not in set(_below(repository.top, not_counted))]
    if dirty and not allow_dirty:
        fix = "commit or stash the changes, or start from them with --allow-dirty"
        raise WorktreeRefusedError(workspace, f"the working tree is not clean ({name_some(dirty)})", fix)
    if repository.git.ask("show-ref", "--verify", "--quiet", "refs/heads/vibe").code == 0:
        fix = "rename it, as with `git branch -m vibe vibe-old`"
        raise WorktreeRefusedError(workspace, "a branch named 'vibe' leaves no room for branches 'vibe/...'", fix)
    _check_objects(repository)


def _check_objects(repository: Repository) -> None:
    """Check that a partial clone lacks no files that we can't fetch, because only web addresses are enabled.

    Raises:
        WorktreeRefusedError: it lacks some.
    """
    git = repository.git
    listed = git.ask("config", "-z", "--get-regexp", r"^remote\..*\.promisor$").items
    remotes = [item.partition("\n")[0].removesuffix(".promisor") for item in listed]
    if not any(git.ask("config", f"{remote}.url").code for remote in remotes):
        return
    objects = git.ask("rev-list", "--objects", "--no-walk", "--missing=print", "HEAD").text.splitlines()
    if lacking := sum(line.startswith("?") for line in objects):
        lacks = f"{counted(lacking, 'file')} of its last commit"
        problem = f"it is a partial clone without {lacks}, and its remote has no web address"
        raise WorktreeRefusedError(repository.workspace, problem, "fetch them with `git fetch --refetch --no-filter`")


def take_base(repository: Repository) -> Base:
    """Return the user's files as they are now, as a commit to start from. The repository's lock must be held."""
    state = repository.state()
    head = Base(commit=state.head, head=state.head, ref=state.ref)
    if not state.dirty:
        return head
    tree, unreadable = repository.snapshot()
    if not repository.changes(state.head, tree):
        return structs.replace(head, left_out=unreadable)
    commit = repository.commit(tree, [state.head], "What the working tree held when a step of a plan started\n")
    return Base(commit=commit, head=state.head, ref=state.ref, left_out=unreadable)


def parse_status(items: Sequence[str]) -> RepositoryState:
    """Return the state in the output of ``git status --porcelain=v2 --branch -z --no-renames``."""
    head, ref = "", DETACHED
    staged: set[str] = set()
    dirty: list[str] = []
    unmerged = False
    for item in items:
        kind, _, rest = item.partition(" ")
        match kind:
            case "#":
                name, _, value = rest.partition(" ")
                head = value if name == "branch.oid" else head
                ref = f"refs/heads/{value}" if name == "branch.head" and value != "(detached)" else ref
            case "?":
                dirty.append(rest)
            case "u":
                unmerged = True
                dirty.append(item.split(" ", 10)[10])
            case _:
                path = item.split(" ", 8)[8]
                dirty.append(path)
                if rest[0] != ".":
                    staged.add(path)
    changed = tuple(dict.fromkeys(dirty))  # a file that is staged for deletion but still there is listed twice
    return RepositoryState(head=head, ref=ref, staged=frozenset(staged), dirty=changed, unmerged=unmerged)


def _change(raw: str, path: str) -> Change:
    old_mode, new_mode, old, new, _ = raw.removeprefix(":").split(" ")
    return Change(path=path, old_mode=old_mode, old=old, new_mode=new_mode, new=new)


def _identity(git: Git, common_dir: Path) -> dict[str, str]:
    """Return the variables that name the author and committer: the user as git knows them, or else ``vibe``."""
    answer = git.ask("config", "-z", "--get-regexp", r"^(user\.(name|email)|filter\.lfs\.process)$").items
    known = dict(item.split("\n", 1) for item in answer if "\n" in item)
    if "filter.lfs.process" in known:
        (common_dir / "lfs").mkdir(exist_ok=True)  # otherwise git-lfs would make it in the shelter
    name, email = known.get("user.name") or "vibe", known.get("user.email") or "vibe@localhost"
    defaults = {
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", name), ("EMAIL", email))
    }
    return {variable: git.environ.get(variable) or value for variable, value in defaults.items()}


def _below(top: Path, paths: Sequence[Path]) -> list[str]:
    """Return those of the paths that lie below ``top``, relative to it."""
    resolved = (Path(os.path.realpath(path)) for path in paths)
    return [path.relative_to(top).as_posix() for path in resolved if path != top and path.is_relative_to(top)]
