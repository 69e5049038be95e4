"""Worktree: one attempt's git worktree and branch: create, set up, commit, begin and end a conflict, remove."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from subagents.worktree.errors import GitFailedError, MergeRefusedError, WorktreeError, name_some
from subagents.worktree.merge import MergeConflict
from subagents.worktree.repository import Base, Change, Git, Repository
from vibe.system.files import text_of
from vibe.system.git.calls import GitCall, run_git, without_fetching
from vibe.system.git.discovery import located_at
from vibe.system.git.shelter import take_shelter
from vibe.system.process import kill_in_folder

INDEX_MARK = b"\0\0\xe0\0"
"""The mode of a submodule, as any index has it."""


def check_submodules(repository: Repository, git: Git, admin: Path) -> None:
    """Check that a worktree's submodules are unchanged.

    ``git`` runs in the worktree, whose folder in the repository is ``admin``.

    Raises:
        MergeRefusedError: one has changed.
        GitFailedError: git refuses.
    """
    if INDEX_MARK not in (admin / "index").read_bytes():
        return
    for path, commit in repository.gitlinks(git).items():
        changed = _changed(git.folder / path, commit, repository)
        if changed:
            raise MergeRefusedError(
                f"the step changed {changed!r} in the submodule {path!r}, which can't be merged: commit it there "
                "yourself, or let the step work with workspace 'shared', in the submodule's own folder"
            )


def _changed(folder: Path, commit: str, repository: Repository) -> str:
    """Return a file in a submodule that differs from its commit, or an empty string."""
    if folder.is_symlink() or not os.path.lexists(folder / ".git"):
        return next(_files(folder), "")
    try:
        located = located_at(folder)
        if located is None:
            return ".git"
        shelter = take_shelter(located, repository.git.environ, repository.keep, programs=False)
        environ: Mapping[str, str] = without_fetching(shelter.here())
        words = ("status", "--porcelain", "-z", "--untracked-files=all", "--ignore-submodules=all", "--no-renames")
        status = run_git(GitCall(words=words, folder=folder, environ=environ))
        head = run_git(GitCall(words=("rev-parse", "--verify", "HEAD"), folder=folder, environ=environ))
    except (OSError, ValueError, subprocess.SubprocessError):
        return ".git"
    if status.code != 0 or head.text != commit:
        return ".git"
    return status.items[0][3:] if status.items else ""


def _files(folder: Path) -> Iterator[str]:
    for place, _, names in os.walk(folder):
        for name in names:
            yield os.path.relpath(os.path.join(place, name), folder)  # noqa: PTH118  text, which may be no name


def link_shared(share: Sequence[str], workspace: Path, workdir: Path) -> None:
    """Link those shared paths that exist into a worktree, except paths that git checked out there.

    Raises:
        WorktreeError: a link can't be made.
    """
    top = Path(os.path.realpath(workdir))
    for name in share:
        source, target = workspace / name, workdir / name
        inside = Path(os.path.realpath(target.parent)).is_relative_to(top)
        if not inside or not source.exists() or os.path.lexists(target):
            continue
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(source)
        except OSError as error:
            raise WorktreeError(f"{str(target)!r} can't be linked to {str(source)!r}: {error.strerror}") from error


def shared_links(share: Sequence[str], workspace: Path, workdir: Path) -> list[Path]:
    """Return the links that still exist: they don't belong to the work."""
    return [workdir / name for name in share if _leads_to(workdir / name, workspace / name)]


def _leads_to(link: Path, source: Path) -> bool:
    try:
        return link.readlink() == source
    except OSError:
        return False


SEPARATOR = "======="
LINK = "gitdir: "
OUR_LABEL = "HEAD"
"""Git's name for the step's side of a conflict; the other side is called by its commit."""

AHEAD_NS = 2_000_000_000
WRITTEN = "vibe-written"
"""In git's folder of the worktree: when its index was written, in nanoseconds."""

PUT_AWAY = ".removed-"
"""Prefix of folders that are to be deleted."""


class Worktree(Struct, frozen=True, kw_only=True):
    """A worktree at ``path`` on ``branch``.

    All methods block: call them in a thread. ``create`` and ``remove`` need the lock of the repository's worktree list.
    """

    repository: Repository
    path: Path
    branch: str

    @property
    def workdir(self) -> Path:
        """The folder in it that corresponds to the workspace."""
        return self.path / self.repository.prefix

    @property
    def ref(self) -> str:
        """The branch's full name."""
        return f"refs/heads/{self.branch}"

    @property
    def is_there(self) -> bool:
        """True if it can be worked in."""
        folder = self.admin_folder()
        return folder is not None and folder.is_dir() and self.workdir.is_dir()

    def create(self, base: Base) -> None:
        """Create it from ``base``; a worktree in its place is removed.

        Raises:
            WorktreeError: git or the disk refuses.
        """
        if self.path.exists():
            self.remove()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._forget()  # one that is gone, as after a kill
            self._add(base.commit)
        except OSError as error:
            raise WorktreeError(f"{str(self.path)!r} can't be made: {error.strerror}") from error
        # Dated ahead, the index has git take files written in the same second (all of them) for unchanged: else each
        # would be read again, twice; ``_touch_changed`` makes up for changes that git could miss.
        (self._admin / WRITTEN).write_text(str(date_ahead(self._admin / "index")))
        self.workdir.mkdir(parents=True, exist_ok=True)  # a workspace of which nothing was ever committed
        link_shared(self.repository.share, self.repository.workspace, self.workdir)

    def remove(self) -> None:
        """Remove it, its processes first; the branch stays. It may be missing or damaged."""
        remove_folder(self.put_away())

    def put_away(self) -> Path:
        """Remove it like ``remove``, but rename the folder and leave its files to ``remove_folder``."""
        kill_in_folder(str(self.path))  # what a step started is gone by now, if it did not hide
        rest = self.path.with_name(f"{PUT_AWAY}{self.path.name}.{secrets.token_hex(4)}")
        with suppress(OSError):
            self._forget()
        with suppress(FileNotFoundError):
            self.path.rename(rest)
        return rest

    def delete_branch(self) -> None:
        """Delete the branch, if there is one."""
        self.repository.git("update-ref", "-d", self.ref)

    def commit(self, base: Base, message: str) -> tuple[str, tuple[Change, ...]] | None:
        """Commit all its content to its branch as one commit on ``base``; return the commit and its changes.

        None: nothing changed. Commits made in it become part of the one commit.

        Raises:
            MergeRefusedError: it holds a repository of its own.
            GitFailedError: git refuses.
        """
        tree = self.tree()
        changes = self.repository.changes(base.commit, tree)
        if not changes:
            return None
        commit = self.repository.commit(tree, [base.commit], message)
        self.git("update-ref", self.ref, commit)
        return commit, changes

    def begin_conflict(self, work: str, conflict: MergeConflict) -> None:
        """Merge the commit ``conflict.onto`` into the step's work; what clashes is left with conflict markers."""
        if self._merge_head() == conflict.onto:
            return
        self.git("symbolic-ref", "HEAD", self.ref)
        self.git("update-ref", self.ref, work)
        self.git("read-tree", "--reset", "-u", work)
        words = ("merge", "--no-commit", "--no-ff", "--no-verify", "--strategy=ort", conflict.onto)
        answer = self.git.ask(*words)
        if answer.code not in (0, 1) or self._merge_head() != conflict.onto:
            raise GitFailedError(words, self.path, answer.problem)
        for path in self._unmerged():
            if not _is_marked(self.path / path, conflict.onto):
                self._explain(path, conflict.onto)

    def unresolved(self, conflict: MergeConflict) -> str:
        """Return the reason why the resolution can't be committed, or an empty string."""
        if self._merge_head() != conflict.onto and not self._holds(conflict.onto):
            return "the merge was aborted in the worktree"
        paths = dict.fromkeys((*conflict.paths, *self._unmerged()))
        marked = [path for path in paths if _is_marked(self.path / path, conflict.onto)]
        return f"conflict markers are left in {name_some(marked)}" if marked else ""

    def end_conflict(self, conflict: MergeConflict, message: str) -> str:
        """Commit the resolution on ``conflict.onto`` and end the merge."""
        commit = self.repository.commit(self.tree(), [conflict.onto], message)
        self.git("symbolic-ref", "HEAD", self.ref)
        self.git("update-ref", self.ref, commit)
        self.git("merge", "--quit")
        return commit

    def admin_folder(self) -> Path | None:
        """Return git's folder of this worktree, which must name it back; None if there is none.

        The worktree's own ``.git`` file is only a hint: a step can write it.
        """
        named = self._admin_folders / Path(text_of(self.path / ".git").removeprefix(LINK).strip()).name
        if self._is_named_by(named):
            return named
        with suppress(OSError):
            return next((folder for folder in self._admin_folders.iterdir() if self._is_named_by(folder)), None)
        return None

    @property
    def _admin_folders(self) -> Path:
        return self.repository.common_dir / "worktrees"

    def _is_named_by(self, admin: Path) -> bool:
        back = text_of(admin / "gitdir").rstrip("\n")
        real = os.path.join(os.path.realpath(self.path), ".git")  # noqa: PTH118  text, which is what git compares
        return bool(back) and back in {real, str(self.path / ".git")}

    def _add(self, commit: str) -> None:
        """Have git create a full worktree with its branch at ``commit``."""
        self._admin_folders.mkdir(exist_ok=True)  # where the shelter leads, git makes none
        words = (
            *("-c", "core.sparseCheckout=false", "worktree", "add", "--quiet", "--force", "--no-track"),
            *("-B", self.branch, str(self.path), commit),
        )
        self.repository.git(*words)
        name = Path(text_of(self.path / ".git").strip()).name
        # Git wrote the path of the shelter; work in the worktree needs the path of the repository.
        link = f"{LINK}{self._admin_folders / name}\n"
        (self.path / ".git").write_text(link, encoding="utf-8", errors="surrogateescape")

    def _forget(self) -> None:
        """Make git forget it, atomically; git's folder of it is deleted with the scratch folder."""
        while (admin := self.admin_folder()) is not None:
            admin.rename(self.repository.scratch / f"forgotten.{secrets.token_hex(4)}")
        with suppress(OSError):
            self._admin_folders.rmdir()  # the last one, as git does

    def written_ns(self) -> int:
        """Return the time in ns, by the file system's clock, when its first index was written; 0 if unknown."""
        admin = self.admin_folder()
        written = "" if admin is None else text_of(admin / WRITTEN)
        return int(written) if written.isdecimal() else 0

    @property
    def _admin(self) -> Path:
        admin = self.admin_folder()
        if admin is None:
            raise WorktreeError(f"{str(self.path)!r} is no longer a git worktree")
        return admin

    @property
    def git(self) -> Git:
        """Git in it.

        Raises:
            WorktreeError: it is no longer a worktree.
        """
        return self.repository.git.at(self.path, self._admin)

    def tree(self, index: str = "") -> str:
        """Return the tree of all its files but ignored ones.

        ``index`` is the name of a copy of its index that takes them up; blank: the index itself does.

        Raises:
            MergeRefusedError: it holds what can't be committed.
            WorktreeError: git or the disk refuses.
        """
        self._touch_changed()
        git, admin = self.git, self._admin
        if index:
            shutil.copy2(admin / "index", admin / index)  # with its date, by which git knows what to look at again
        check_submodules(self.repository, git, admin)
        links = shared_links(self.repository.share, self.repository.workspace, self.workdir)
        outside = [f":(top,exclude,literal){link.relative_to(self.path).as_posix()}" for link in links]
        inner, closed = self.repository.record(git, outside, index=admin / index if index else None)
        if inner:
            raise MergeRefusedError(f"the step made a git repository at {name_some(inner)}, which can't be committed")
        if closed:
            raise MergeRefusedError(f"the step left {name_some(closed)}, which can't be read and so can't be committed")
        if index:
            return git("write-tree", index=admin / index).text
        date_ahead(admin / "index")
        return git("write-tree").text

    def _touch_changed(self) -> None:
        """Give files that changed right after the checkout a new date: git counts in seconds and might miss them."""
        since = self.written_ns()
        if not since:
            return
        stamp = since + 2 * AHEAD_NS
        for entry in _files_below(self.path):
            if since <= entry.stat(follow_symlinks=False).st_ctime_ns < since + AHEAD_NS:
                with suppress(PermissionError):  # another user's, as out of a container: its owner tells git enough
                    os.utime(entry.path, ns=(stamp, stamp), follow_symlinks=False)

    def _merge_head(self) -> str:
        admin = self.admin_folder()
        return text_of(admin / "MERGE_HEAD").strip() if admin else ""

    def _holds(self, commit: str) -> bool:
        return self.git.ask("merge-base", "--is-ancestor", commit, "HEAD").code == 0

    def _unmerged(self) -> list[str]:
        items = self.git("ls-files", "-u", "-z").items
        return list(dict.fromkeys(item.partition("\t")[2] for item in items))

    def _explain(self, path: str, onto: str) -> None:
        """Put marks in a file that git leaves none in (binary, deleted, another kind): they say what to choose from."""
        items = self.git("ls-files", "-u", "-z", "--", f":(top,literal){path}").items
        sides = {item.split(" ", 2)[2][0]: item.split(" ", 2)[1] for item in items}
        ours, theirs = _side(sides.get("2")), _side(sides.get("3"))
        file = self.path / path
        with suppress(OSError):  # a folder of the other side is in its place, which git has said
            file.parent.mkdir(parents=True, exist_ok=True)
            file.unlink(missing_ok=True)
            file.write_text(f"<<<<<<< {OUR_LABEL}\n{ours}\n{SEPARATOR}\n{theirs}\n>>>>>>> {onto}\n")


def date_ahead(index: Path) -> int:
    """Date an index ahead; when it was written, in nanoseconds."""
    written = index.stat().st_mtime_ns
    os.utime(index, ns=(written + AHEAD_NS, written + AHEAD_NS))
    return written


def _files_below(folder: Path | str) -> Generator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files_below(entry.path)
            else:
                yield entry


def _is_marked(file: Path, onto: str) -> bool:
    """Return whether a file has marks that git, or we, put there for this merge."""
    marks = rb"^(?:<{7,} %s|>{7,} %s)\s*$" % (OUR_LABEL.encode(), onto.encode())
    try:
        return not file.is_symlink() and bool(re.search(marks, file.read_bytes(), re.MULTILINE))
    except OSError:
        return False  # it was deleted, which settles it


def _side(oid: str | None) -> str:
    return f"this side has the content that `git cat-file blob {oid}` prints" if oid else "this side deleted the file"


def remove_folder(rest: Path) -> None:
    """Delete the rest of a worktree, and the plan's folder for them with the last one.

    Not beside one that is being made there.
    """
    shutil.rmtree(rest, ignore_errors=True)
    remove_if_empty(rest.parent)


def remove_if_empty(folder: Path) -> None:
    """Remove a plan's folder for worktrees, if none is left."""
    with suppress(OSError):
        folder.rmdir()
