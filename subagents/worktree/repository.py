"""Repository: the user's repository for worktree steps: where it is, its state, and what its files come to."""

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
from msgspec.structs import replace

from subagents.worktree.errors import GitFailedError, WorktreeRefusedError, name_some
from vibe.system.git.calls import GitCall, GitOutput, git_environ, run_git
from vibe.system.git.discovery import BARE, Located, OddRepositoryError, locate, small_text
from vibe.system.git.shelter import take_shelter
from vibe.system.own_places import NO_OWN_PLACES, OwnPlaces
from vibe.system.programs import find_program, shunned

EFFECTIVE = os.access in os.supports_effective_ids


def sort_paths(top: Path, paths: Iterable[str]) -> tuple[list[str], list[str], list[str]]:
    """Return the paths below ``top`` at which no file and no link is now, those at which one is, and the unreadable."""

    @cache
    def is_reached(parent: Path) -> bool:
        """Return whether the way there leads through folders alone."""
        return parent == top or (is_reached(parent.parent) and not parent.is_symlink())

    gone, there, closed = list[str](), list[str](), list[str]()
    for path in paths:
        file = top / path
        try:
            mode = file.lstat().st_mode if is_reached(file.parent) else 0
        except (FileNotFoundError, NotADirectoryError):
            mode = 0
        except OSError:
            closed.append(path)
            continue
        if stat.S_ISREG(mode) and not os.access(file, os.R_OK, effective_ids=EFFECTIVE):
            closed.append(path)
        else:
            (there if stat.S_ISREG(mode) or stat.S_ISLNK(mode) else gone).append(path)
    return gone, there, closed


def stdin_of(paths: Iterable[str]) -> bytes:
    """Paths for ``-z --stdin``."""
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


OLDEST = (2, 38)
"""``merge-tree --write-tree`` came with it."""


class Git(Struct, frozen=True, kw_only=True):
    """Git in one folder. Every call blocks: make it in a thread.

    ``environ`` is complete (see ``git_environ``); ``locks`` are descriptors that a command keeps open while it runs, so
    that a lock outlives us for as long as it.
    """

    folder: Path
    environ: Mapping[str, str]
    locks: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return f"Git(folder={self.folder!r})"  # the environment may hold keys

    def at(self, folder: Path, git_dir: Path) -> Git:
        """The same git in another worktree of the repository, of which git has its own in ``git_dir``."""
        where = {"GIT_DIR": str(git_dir), "GIT_WORK_TREE": str(folder)}
        return replace(self, folder=folder, environ={**self.environ, **where})

    def __call__(self, *words: str, stdin: bytes = b"", index: Path | None = None) -> GitOutput:
        """Run a command that has to succeed; ``index`` in place of the folder's own.

        Raises:
            GitFailedError: it failed.
        """
        answer = self.ask(*words, stdin=stdin, index=index)
        if answer.code != 0:
            raise GitFailedError(words, self.folder, answer.problem)
        return answer

    def ask(self, *words: str, stdin: bytes = b"", index: Path | None = None) -> GitOutput:
        """Run a command whose failure is an answer, too.

        Raises:
            GitFailedError: it can't be started or takes too long.
        """
        environ = self.environ if index is None else {**self.environ, "GIT_INDEX_FILE": str(index)}
        call = GitCall(words=words, folder=self.folder, environ=environ, stdin=stdin, locks=self.locks)
        try:
            return run_git(call)
        except subprocess.TimeoutExpired as error:
            raise GitFailedError(words, self.folder, f"it took longer than {call.seconds:.0f} s") from error
        except OSError as error:
            if not self.folder.is_dir():
                raise GitFailedError(words, self.folder, "the folder does not exist") from error
            raise GitFailedError(words, self.folder, error.strerror or str(error)) from error


def git_version(git: Git) -> tuple[int, ...]:
    """The version's numbers; empty if it can't be told.

    Raises:
        GitFailedError: git can't be started.
    """
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", git("version").text)
    return tuple(int(number) for number in found.groups() if number) if found else ()


UNDER_WAY = (
    ("MERGE_HEAD", "a merge"), ("rebase-merge", "a rebase"), ("rebase-apply", "a rebase"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"), ("REVERT_HEAD", "a revert"), ("BISECT_LOG", "a bisect"),
)  # fmt: skip

SCRATCH = "vibe-merge"
"""A folder of ours in the repository's own, while a merge is under way."""

SNAPSHOT_TRIES = 3
"""Files come and go while they are recorded: a step in the shared workspace may be at work."""

DETACHED = ""
ABSENT = "000000"
GITLINK = "160000"


class Base(Struct, frozen=True, kw_only=True):
    """A step's start: ``commit``, made on the commit ``head`` that ``ref`` (blank: a detached HEAD) was at.

    They are the same commit unless the working tree held what was not committed. ``left_out`` are paths there that
    can't be read.
    """

    commit: str
    head: str
    ref: str
    left_out: tuple[str, ...] = ()


class Change(Struct, frozen=True, array_like=True):
    """A path whose entry goes from one mode and object to others; mode ``000000``: there is no entry."""

    path: str
    old_mode: str
    old: str
    new_mode: str
    new: str


class RepositoryState(Struct, frozen=True, kw_only=True):
    """HEAD, and the paths that differ from it: in the index (``staged``), and anywhere (``dirty``).

    A folder of which git knows nothing stands for what is in it, with a ``/`` at its end.
    """

    head: str
    ref: str
    staged: frozenset[str]
    dirty: tuple[str, ...]
    unmerged: bool


class Repository(Struct, frozen=True, kw_only=True):
    """A repository and the workspace in it. Everything here blocks: call it in a thread.

    ``prefix`` is the workspace's path from ``top``, with a ``/`` at its end if it is not the top itself. ``own``
    are places that don't belong to the user's work though they may lie below ``top``; ``keep`` is
    where git's settings are (see ``take_shelter``), ``left_out`` are those of the repository's own that would have git
    run programs, and that it does not go by. ``share`` are paths of the workspace that worktrees get links to.
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
        """Pathspecs that leave out what is vibe's own."""
        return tuple(f":(top,exclude,literal){path}" for path in _below(self.top, self.own.below(self.top)))

    @property
    def scratch(self) -> Path:
        """Our folder in the repository's own."""
        return self.git_dir / SCRATCH

    def state(self) -> RepositoryState:
        """Return how it stands now."""
        words = ("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal", "--no-renames")
        return parse_status(self.git(*words, "--ignore-submodules=all", "--", ":/", *self.outside).items)

    def busy_with(self) -> str:
        """Return what the user is in the middle of, or nothing."""
        return next((words for name, words in UNDER_WAY if (self.git_dir / name).exists()), "")

    def snapshot(self) -> tuple[str, tuple[str, ...]]:
        """The tree of all files as they are now, but for ignored ones; the user's index is only read.

        With it the paths that can't be read: they are in the tree as the index has them, if it has them.
        """
        index = self.scratch / "snapshot"
        closed: tuple[str, ...] = ()
        for tries in range(1, SNAPSHOT_TRIES + 1):
            if (self.git_dir / "index").is_file():
                shutil.copyfile(self.git_dir / "index", index)
            try:
                _, closed = self.record(self.git, self.outside, index=index)
            except GitFailedError:
                if tries == SNAPSHOT_TRIES:
                    raise
            else:
                break
        return self.git("write-tree", index=index).text, closed

    def record(
        self, git: Git, outside: Sequence[str] = (), index: Path | None = None
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Put all files of a worktree that changed or are new into an index.

        Returned are the repositories found among them, and the paths that can't be read.

        Not ``git add``: that asks the repositories within for changes, and so runs what their settings name.
        """
        words = ("ls-files", "-z", "--modified", "--others", "--exclude-standard", "--deduplicate")
        found = git(*words, "--", ":/", *outside, index=index).items
        inner = tuple(path.rstrip("/") for path in found if path.endswith("/"))
        gone, there, closed = sort_paths(git.folder, (path for path in found if not path.endswith("/")))
        gitlinks = self.gitlinks(git, index) if any((git.folder / path).is_dir() for path in gone) else {}
        gone = [path for path in gone if path not in gitlinks]
        if gone:  # first: to make room
            git("update-index", "-z", "--force-remove", "--stdin", stdin=stdin_of(gone), index=index)
        if there:
            git("update-index", "-z", "--add", "--remove", "--replace", "--stdin", stdin=stdin_of(there), index=index)
        return inner, tuple(closed)

    def gitlinks(self, git: Git, index: Path | None = None) -> dict[str, str]:
        """The paths of submodules in an index, and their commits."""
        items = git("ls-files", "-z", "--stage", "--", ":/", index=index).items
        return {item.partition("\t")[2]: item.split(" ", 2)[1] for item in items if item.startswith(GITLINK)}

    def changes(self, before: str, after: str) -> tuple[Change, ...]:
        """Return what differs between two trees (or commits)."""
        words = self.git("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", before, after).items
        return tuple(_change(raw, path) for raw, path in zip(words[0::2], words[1::2], strict=True))

    def commit(self, tree: str, parents: Sequence[str], message: str) -> str:
        """Write a commit; no branch moves."""
        words = [word for parent in parents for word in ("-p", parent)]
        return self.git("commit-tree", tree, *words, "-F", "-", stdin=message.encode()).text

    def update_index(self, index: Path, changes: Sequence[Change]) -> None:
        """Put the new entries of ``changes`` into an index file.

        All paths are taken out first: to make room, and since git 2.39 may else add a file of a sparse index beside the
        folder that stands for it.
        """
        lines = [b"0 %s\t%s\0" % (c.old.encode(), os.fsencode(c.path)) for c in changes]
        come = (c for c in changes if c.new_mode != ABSENT)
        lines += [b"%s %s\t%s\0" % (c.new_mode.encode(), c.new.encode(), os.fsencode(c.path)) for c in come]
        self.git("update-index", "-z", "--index-info", stdin=b"".join(lines), index=index)

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Return whether ``newer`` is ``older`` or came after it."""
        return older == newer or self.git.ask("merge-base", "--is-ancestor", older, newer).code == 0

    def from_workspace(self, path: str) -> str:
        """A path from the top as it is called in the workspace."""
        return path.removeprefix(self.prefix) if path.startswith(self.prefix) else os.path.relpath(path, self.prefix)


def open_repository(
    workspace: Path, environ: Mapping[str, str], keep: Path, *, own: OwnPlaces = NO_OWN_PLACES, programs: bool = False
) -> Repository:
    """The repository of a workspace, if worktree steps can run there; ``own`` are places that hold no work.

    ``keep`` and ``programs``: see ``take_shelter``.

    Raises:
        WorktreeRefusedError: no git, no repository, none with a working tree, or no commit yet.
    """
    located = find_repository(workspace, environ)
    try:
        shelter = take_shelter(located, environ, keep, programs=programs)
        (located.common_dir / "logs").mkdir(exist_ok=True)  # where the shelter leads, git makes none
    except OSError as error:
        problem = f"{error.filename or located.common_dir} can't be written ({error.strerror})"
        raise WorktreeRefusedError(workspace, problem, "check free space and permissions there") from error
    except (ValueError, subprocess.TimeoutExpired) as error:
        raise WorktreeRefusedError(workspace, str(error), "check `git config --list`") from error
    git = Git(folder=located.top, environ=shelter.here())
    hash_name = git("rev-parse", "--show-object-format").text
    _check_head(workspace, located, git)
    prefix = Path(os.path.realpath(workspace)).relative_to(located.top).as_posix()
    return Repository(
        git=replace(git, environ={**git.environ, **_identity(git, located.common_dir)}),
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


def find_repository(workspace: Path, environ: Mapping[str, str]) -> Located:
    """Return where a workspace's repository is, if git is of use there.

    Raises:
        WorktreeRefusedError: no git, no repository, or none with a working tree.
    """
    if not workspace.is_dir():
        raise WorktreeRefusedError(workspace, "the folder does not exist", "restore it, or run the plan elsewhere")
    own = git_environ(environ, workspace)
    if find_program("git", own) is None:
        problem = f"git is not installed{shunned('git', environ)}"
        raise WorktreeRefusedError(workspace, problem, f"install git {OLDEST[0]}.{OLDEST[1]} or later")
    version = git_version(Git(folder=workspace, environ=own))
    if version < OLDEST:
        found = ".".join(map(str, version)) or "of an unknown version"
        raise WorktreeRefusedError(workspace, f"git {found} is too old", f"install {OLDEST[0]}.{OLDEST[1]} or later")
    return _located(workspace)


def _located(workspace: Path) -> Located:
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


def _check_head(workspace: Path, located: Located, git: Git) -> None:
    """Check that there is a commit, and that it can be read."""
    named = git.ask("rev-parse", "--verify", "--quiet", "HEAD")
    branch = small_text(located.git_dir / "HEAD").removeprefix("ref:").strip()
    if named.code != 0 and not (located.common_dir / branch).exists():
        raise WorktreeRefusedError(workspace, "the repository has no commit yet", "make a first commit")
    read = git.ask("cat-file", "-e", f"{named.text or 'HEAD'}^{{tree}}")
    if read.code != 0:
        problem = f"its last commit can't be read ({read.problem})"
        raise WorktreeRefusedError(workspace, problem, "check `git fsck`")


def check_startable(repository: Repository, *, allow_dirty: bool, not_counted: Sequence[Path] = ()) -> None:
    """Check that a plan with worktree steps may start; new files in ``not_counted`` are ignored.

    Raises:
        WorktreeRefusedError: something is under way, there are changes that were not allowed to be carried along, or
            files are missing that git would have to fetch from where we let it fetch nothing.
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
    _check_objects(repository)


def _check_objects(repository: Repository) -> None:
    """Check that a partial clone lacks nothing unfetchable: its remotes of other protocols are disabled.

    Raises:
        WorktreeRefusedError: it does.
    """
    git = repository.git
    listed = git.ask("config", "-z", "--get-regexp", r"^remote\..*\.promisor$").items
    remotes = [item.partition("\n")[0].removesuffix(".promisor") for item in listed]
    if not any(git.ask("config", f"{remote}.url").code for remote in remotes):
        return
    objects = git.ask("rev-list", "--objects", "--no-walk", "--missing=print", "HEAD").text.splitlines()
    if lacking := sum(line.startswith("?") for line in objects):
        problem = f"it is a partial clone without {lacking} files of its last commit, and its remote has no web address"
        raise WorktreeRefusedError(repository.workspace, problem, "fetch them with `git fetch --refetch --no-filter`")


def take_base(repository: Repository) -> Base:
    """The state of the user's files at this moment, as a commit to start from; with the repository's lock held."""
    state = repository.state()
    head = Base(commit=state.head, head=state.head, ref=state.ref)
    if not state.dirty:
        return head
    tree, closed = repository.snapshot()
    if not repository.changes(state.head, tree):
        return structs.replace(head, left_out=closed)
    commit = repository.commit(tree, [state.head], "What the working tree held when a step of a plan started\n")
    return Base(commit=commit, head=state.head, ref=state.ref, left_out=closed)


def parse_status(items: Sequence[str]) -> RepositoryState:
    """The answer of ``git status --porcelain=v2 --branch -z --no-renames``."""
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
    changed = tuple(dict.fromkeys(dirty))  # staged for deletion and still there, a file is listed twice
    return RepositoryState(head=head, ref=ref, staged=frozenset(staged), dirty=changed, unmerged=unmerged)


def _change(raw: str, path: str) -> Change:
    old_mode, new_mode, old, new, _ = raw.removeprefix(":").split(" ")
    return Change(path=path, old_mode=old_mode, old=old, new_mode=new_mode, new=new)


def _identity(git: Git, common_dir: Path) -> dict[str, str]:
    """Return who commits: the user as git knows them, or else ``vibe``."""
    answer = git.ask("config", "-z", "--get-regexp", r"^(user\.(name|email)|filter\.lfs\.process)$").items
    known = dict(item.split("\n", 1) for item in answer if "\n" in item)
    if "filter.lfs.process" in known:
        (common_dir / "lfs").mkdir(exist_ok=True)  # git-lfs would make it in the shelter
    name, email = known.get("user.name") or "vibe", known.get("user.email") or "vibe@localhost"
    defaults = {
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", name), ("EMAIL", email))
    }
    return {variable: git.environ.get(variable) or value for variable, value in defaults.items()}


def _below(top: Path, paths: Sequence[Path]) -> list[str]:
    resolved = (Path(os.path.realpath(path)) for path in paths)
    return [path.relative_to(top).as_posix() for path in resolved if path != top and path.is_relative_to(top)]
