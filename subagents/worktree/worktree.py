"""One attempt's git worktree and branch: creates, sets up, commits and removes it, and merges conflicts in it."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from subagents.worktree.errors import GitFailedError, MergeRefusedError, WorktreeError, name_some, on_disk
from subagents.worktree.merge import MergeConflict
from subagents.worktree.repository import Base, Change, Git, Repository
from vibe.system.files import entries_of, regular_bytes, text_of
from vibe.system.git.calls import GitCall, run_git, without_fetching
from vibe.system.git.discovery import located_at
from vibe.system.git.shelter import take_shelter
from vibe.system.process import kill_in_folder

SUBMODULE_MODE = b"\0\0\xe0\0"
"""The mode of a submodule, as it appears in every index that has one."""


def check_submodules(repository: Repository, git: Git, admin: Path) -> None:
    """Check that a worktree's submodules are unchanged.

    ``git`` runs in the worktree, whose folder inside the repository is ``admin``.

    Raises:
        MergeRefusedError: one has changed.
        GitFailedError: Git refuses.
    """
    if SUBMODULE_MODE not in (admin / "index").read_bytes():
        return
    for path, commit in repository.gitlinks(git).items():
        changed = _changed_file(git.folder / path, commit, repository)
        if changed:
            raise MergeRefusedError(
                f"the step changed {changed!r} in the submodule {path!r}, which can't be merged: commit it there "
                "yourself, or let the step work with workspace 'shared', in the submodule's own folder"
            )


def _changed_file(folder: Path, commit: str, repository: Repository) -> str:
    """Return a file in a submodule that differs from its commit, or an empty string."""
    if os.path.islink(folder) or not os.path.lexists(folder / ".git"):
        return next((os.path.relpath(entry.path, folder) for entry in _files_below(folder)), "")
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


def link_shared(share: Sequence[str], workspace: Path, workdir: Path) -> None:
    """Link the shared paths that exist into a worktree, except those that git has checked out there.

    Raises:
        WorktreeError: a link can't be made.
    """
    top = Path(os.path.realpath(workdir))
    for name in share:
        source, target = workspace / name, workdir / name
        inside = Path(os.path.realpath(target.parent)).is_relative_to(top)
        if not inside or not os.path.exists(source) or os.path.lexists(target):
            continue
        with on_disk(target, "linked"):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(source)


def shared_links(share: Sequence[str], workspace: Path, workdir: Path) -> list[Path]:
    """Return the links that still exist, which don't belong to the step's work."""
    found: list[Path] = []
    for name in share:
        with suppress(OSError):  # it is no link, or something still at work has just removed it
            if (workdir / name).readlink() == workspace / name:
                found.append(workdir / name)
    return found


SEPARATOR = "======="
LINK = "gitdir: "
"""The beginning of a worktree's ``.git`` file, before the path of git's folder."""
OUR_LABEL = "HEAD"
"""Git's name for the step's side of a conflict. The other side is named by its commit."""

AHEAD_NS = 2_000_000_000
"""Nanoseconds by which an index is dated ahead of its writing."""
WRITTEN = "vibe-written"
"""The file in git's folder of the worktree that says when its index was written, in nanoseconds."""

PUT_AWAY = ".removed-"
"""Prefix of the folders that are still to be deleted."""


class Worktree(Struct, frozen=True, kw_only=True):
    """A worktree at ``path`` on ``branch``.

    All methods block, so call them in a thread. ``create`` and ``remove`` need the lock of the repository's list of
    worktrees.
    """

    repository: Repository
    path: Path
    branch: str

    @property
    def workdir(self) -> Path:
        """The folder in the worktree that corresponds to the workspace."""
        return self.path / self.repository.prefix

    @property
    def ref(self) -> str:
        """The branch's full name."""
        return f"refs/heads/{self.branch}"

    @property
    def is_there(self) -> bool:
        """True if the worktree exists and git knows it."""
        folder = self.admin_folder()
        return folder is not None and os.path.isdir(folder) and os.path.isdir(self.workdir)

    def create(self, base: Base) -> None:
        """Create the worktree from ``base``, and remove one that is in its place.

        Raises:
            WorktreeError: Git or the disk refuses.
        """
        if os.path.exists(self.path):
            self.remove()
        with on_disk(self.path, "made"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._forget()  # git may still list one whose folder is gone, as after a kill
            self._add(base.commit)
        # All files were written in the same second as the index, so git would read each of them again, twice. With the
        # index dated ahead it takes them for unchanged. ``_touch_changed`` makes up for changes that it could miss.
        (self._admin / WRITTEN).write_text(str(date_ahead(self._admin / "index")))
        self.workdir.mkdir(parents=True, exist_ok=True)  # missing if nothing in the workspace was ever committed
        link_shared(self.repository.share, self.repository.workspace, self.workdir)

    def remove(self) -> None:
        """Kill the worktree's processes and remove it, even if it is missing or damaged. The branch stays."""
        remove_folder(self.put_away())

    def put_away(self) -> Path:
        """Remove the worktree like ``remove``, but only rename its folder, and return that for ``remove_folder``."""
        kill_in_folder(str(self.path))  # a step's processes are gone by now, unless they hid
        rest = self.path.with_name(f"{PUT_AWAY}{self.path.name}.{secrets.token_hex(4)}")
        with suppress(OSError):
            self._forget()
        with suppress(FileNotFoundError):
            self.path.rename(rest)
        return rest

    def delete_branch(self) -> None:
        """Delete the branch, if it exists."""
        self.repository.git("update-ref", "-d", self.ref)

    def commit(self, base: Base, message: str) -> tuple[str, tuple[Change, ...]] | None:
        """Commit all files of the worktree to its branch, as one commit on ``base``.

        Return the commit and its changes, or None if nothing changed. Commits made in the worktree become part of the
        one commit.

        Raises:
            MergeRefusedError: the worktree holds a repository of its own.
            GitFailedError: Git refuses.
        """
        tree = self.tree()
        changes = self.repository.changes(base.commit, tree)
        if not changes:
            return None
        commit = self.repository.commit(tree, [base.commit], message)
        self.git("update-ref", self.ref, commit)
        return commit, changes

    def begin_conflict(self, work: str, conflict: MergeConflict) -> None:
        """Merge the commit ``conflict.onto`` into the step's work, and leave conflict markers where they clash."""
        if self._merge_head() == conflict.onto:
            return
        self.git("symbolic-ref", "HEAD", self.ref)
        self.git("update-ref", self.ref, work)
        self.git("read-tree", "--reset", "-u", work)
        words = ("merge", "--no-commit", "--no-ff", "--no-verify", "--strategy=ort", conflict.onto)
        answer = self.git.ask(*words)
        if answer.code not in (0, 1) or self._merge_head() != conflict.onto:
            raise GitFailedError(words, self.path, answer.problem)
        for path, sides in self._unmerged().items():
            if not _is_marked(self.path / path, conflict.onto):
                self._write_markers(path, sides, conflict.onto)

    def unresolved(self, conflict: MergeConflict) -> str:
        """Return the reason that the resolution can't be committed, or an empty string."""
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
        """Return git's folder for this worktree, or None. Only a folder that names this worktree counts.

        The worktree's own ``.git`` file is only a hint, because a step can change it.
        """
        named = self._admin_folders / Path(text_of(self.path / ".git").removeprefix(LINK).strip()).name
        if self._is_named_by(named):
            return named
        folders = (Path(entry.path) for entry in entries_of(self._admin_folders))
        return next((folder for folder in folders if self._is_named_by(folder)), None)

    @property
    def _admin_folders(self) -> Path:
        return self.repository.common_dir / "worktrees"

    def _is_named_by(self, admin: Path) -> bool:
        back = text_of(admin / "gitdir").rstrip("\n")
        real = os.path.join(os.path.realpath(self.path), ".git")  # noqa: PTH118  git compares plain text
        return bool(back) and back in {real, str(self.path / ".git")}

    def _add(self, commit: str) -> None:
        """Make git create a complete worktree with its branch at ``commit``."""
        self._admin_folders.mkdir(exist_ok=True)  # the shelter links here, and git would not make it
        words = (
            *("-c", "core.sparseCheckout=false", "worktree", "add", "--quiet", "--force", "--no-track"),
            *("-B", self.branch, str(self.path), commit),
        )
        self.repository.git(*words)
        name = Path(text_of(self.path / ".git").strip()).name
        # Git wrote the path of the shelter, but work in the worktree needs the path of the repository.
        link = f"{LINK}{self._admin_folders / name}\n"
        (self.path / ".git").write_text(link, encoding="utf-8", errors="surrogateescape")

    def _forget(self) -> None:
        """Make git forget the worktree, atomically. Git's folder for it is deleted with the scratch folder."""
        while (admin := self.admin_folder()) is not None:
            admin.rename(self.repository.scratch / f"forgotten.{secrets.token_hex(4)}")
        with suppress(OSError):
            self._admin_folders.rmdir()  # with the last worktree, as git does

    @property
    def _admin(self) -> Path:
        admin = self.admin_folder()
        if admin is None:
            raise WorktreeError(f"{str(self.path)!r} is no longer a git worktree")
        return admin

    @property
    def git(self) -> Git:
        """Git in this worktree.

        Raises:
            WorktreeError: it is no longer a worktree.
        """
        return self.repository.git.at(self.path, self._admin)

    def tree(self, index: str = "") -> str:
        """Return the tree of all files in the worktree, except ignored ones.

        They are recorded in the worktree's index, or in a copy of that with the name ``index`` if given.

        Raises:
            MergeRefusedError: the worktree holds something that can't be committed.
            WorktreeError: Git or the disk refuses.
        """
        self._touch_changed()
        git, admin = self.git, self._admin
        used = admin / (index or "index")
        if index:
            shutil.copy2(admin / "index", used)  # keep its date, which tells git which files to read again
        check_submodules(self.repository, git, admin)
        links = shared_links(self.repository.share, self.repository.workspace, self.workdir)
        outside = [f":(top,exclude,literal){link.relative_to(self.path).as_posix()}" for link in links]
        nested, denied = self.repository.record(git, outside, index=used)
        if nested:
            raise MergeRefusedError(f"the step made a git repository at {name_some(nested)}, which can't be committed")
        if denied:
            raise MergeRefusedError(f"the step left {name_some(denied)}, which can't be read and so can't be committed")
        date_ahead(used)
        return git("write-tree", index=used).text

    def _touch_changed(self) -> None:
        """Give files that changed right after the checkout a new date; git counts in seconds and could miss them."""
        written = text_of(self._admin / WRITTEN)
        if not written.isdecimal():
            return
        since = int(written)
        stamp = since + 2 * AHEAD_NS
        for entry in _files_below(self.path):
            if since <= entry.stat(follow_symlinks=False).st_ctime_ns < since + AHEAD_NS:
                with suppress(PermissionError):  # another user's, as from a container: git sees that its owner changed
                    os.utime(entry.path, ns=(stamp, stamp), follow_symlinks=False)

    def _merge_head(self) -> str:
        admin = self.admin_folder()
        return text_of(admin / "MERGE_HEAD").strip() if admin else ""

    def _holds(self, commit: str) -> bool:
        return self.git.ask("merge-base", "--is-ancestor", commit, "HEAD").code == 0

    def _unmerged(self) -> dict[str, dict[str, str]]:
        """Return the paths that clash, each with the objects of its sides by git's numbers for them."""
        found: dict[str, dict[str, str]] = {}
        for item in self.git("ls-files", "-u", "-z").items:
            entry, _, path = item.partition("\t")
            _, oid, side = entry.split(" ")
            found.setdefault(path, {})[side] = oid
        return found

    def _write_markers(self, path: str, sides: Mapping[str, str], onto: str) -> None:
        """Write markers that name both sides into a file that git can't mark (binary, deleted, of another kind)."""
        ours, theirs = _side_text(sides.get("2")), _side_text(sides.get("3"))
        file = self.path / path
        with suppress(OSError):  # a folder of the other side may be in its place, which git has reported
            file.parent.mkdir(parents=True, exist_ok=True)
            file.unlink(missing_ok=True)
            file.write_text(f"<<<<<<< {OUR_LABEL}\n{ours}\n{SEPARATOR}\n{theirs}\n>>>>>>> {onto}\n")


def date_ahead(index: Path) -> int:
    """Date an index ahead of its writing, and return when it was written, in nanoseconds."""
    written = index.stat().st_mtime_ns
    os.utime(index, ns=(written + AHEAD_NS, written + AHEAD_NS))
    return written


def _files_below(folder: Path | str) -> Iterator[os.DirEntry[str]]:
    for entry in entries_of(folder):
        if entry.is_dir(follow_symlinks=False):
            yield from _files_below(entry.path)
        else:
            yield entry


def _is_marked(file: Path, onto: str) -> bool:
    """Return whether a file has conflict markers that git or vibe wrote for this merge."""
    marks = rb"^(?:<{7,} %s|>{7,} %s)\s*$" % (OUR_LABEL.encode(), onto.encode())
    with suppress(OSError):
        return not os.path.islink(file) and bool(re.search(marks, regular_bytes(file), re.MULTILINE))
    return False  # the file was deleted, which resolves the conflict


def _side_text(oid: str | None) -> str:
    return f"this side has the content that `git cat-file blob {oid}` prints" if oid else "this side deleted the file"


def remove_folder(rest: Path) -> None:
    """Delete what is left of a worktree, and the plan's folder for worktrees with the last one.

    Don't call this while another worktree is being made there.
    """
    shutil.rmtree(rest, ignore_errors=True)
    remove_if_empty(rest.parent)


def remove_if_empty(folder: Path) -> None:
    """Remove a plan's folder for worktrees if it is empty."""
    with suppress(OSError):
        folder.rmdir()
