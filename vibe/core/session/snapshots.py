"""Snapshots of a workspace's files during a conversation, kept as git trees of a private repository.

The user's repository, if there is one, is only read: its objects are borrowed and a copy of its index makes the first
snapshot cheap. Ignored files, files over 10 MB and repositories inside the workspace are left out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import Struct

from ipc.errors import INVALID_JSON
from vibe.core.errors import remedy
from vibe.core.session.errors import SnapshotError
from vibe.core.system.files import text_of
from vibe.core.system.git.calls import GitCall, GitOutput, git_environ, run_git, without_fetching
from vibe.core.system.git.config_file import GitConfigError, read_settings
from vibe.core.system.git.discovery import Located, locate
from vibe.core.system.git.index_paths import gone_and_there, stdin_of
from vibe.core.system.programs import find_program, shunned

MOST_BYTES = 10_000_000
"""The largest file that is recorded."""
MOST_FILES = 10_000
"""New or changed files in one snapshot; more are no work of an agent."""
GIT_SECONDS = 30.0

DEFAULT_EXCLUDES = (
    ".git/", ".venv/", "venv/", "node_modules/", "__pycache__/", ".mypy_cache/", ".pytest_cache/", ".ruff_cache/",
    ".cache/", "target/",
)  # fmt: skip
"""Paths left out where there is no repository to say so."""

_CONFIG = "[core]\n\trepositoryformatversion = 1\n\tbare = false\n[gc]\n\tauto = 0\n[extensions]\n\tobjectFormat = {}\n"


class Snapshot(Struct, frozen=True):
    """A line of ``snapshots.jsonl``: the files when the conversation had so many ``messages``.

    ``found``: as they were before the agent touched them again; what differs from the snapshot before is not its work.
    """

    messages: int
    tree: str
    ts: float = 0.0
    found: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """A difference between two trees. ``status``: git's letter (A, D, M, T); ``path`` relative to ``Snapshots.top``."""

    status: str
    path: str


class Snapshots:
    """The snapshots of one session, in its folder. Everything here blocks: call it in a thread.

    ``environ`` is where git is looked for, and whose global settings count; ``git_dir`` is the private repository.
    """

    def __init__(self, workspace: Path, folder: Path, environ: Mapping[str, str]) -> None:
        self.workspace = workspace.resolve()
        self.top = self.workspace
        self.git_dir = folder / "files.git"
        self._log = folder / "snapshots.jsonl"
        self._user_environ = environ
        self._environ = without_fetching(git_environ(environ, self.workspace))
        self._ready = False
        self._last: Snapshot | None = None  # what the log ends with
        self._known: str | None = None  # what the index holds

    def take(self, messages: int, *, found: bool = False) -> str:
        """Record the files as they are now; where nothing changed, only that a turn came to its end.

        ``found`` says that the agent has not yet done anything about ``messages``.

        Raises:
            SnapshotError: git is missing or refuses, or far too much has changed.
        """
        tree = self.current_tree()
        last = self._last
        if last is None or tree != last.tree or (last.found and not found):
            self._last = Snapshot(messages, tree, time.time(), found)
            self._remember(self._last)
        return tree

    def taken(self) -> list[Snapshot]:
        """All snapshots, the oldest first; a torn last line is left out."""
        try:
            lines = self._log.read_bytes().splitlines()
        except OSError:
            return []
        found: list[Snapshot] = []
        for line in lines:
            try:
                found.append(msgspec.json.decode(line, type=Snapshot))
            except INVALID_JSON:
                continue
        return found

    def current_tree(self) -> str:
        """The tree of the files as they are now.

        Raises:
            SnapshotError: see ``take``.
        """
        self._prepare()
        paths = self._changed_paths()
        if not paths and self._known is not None:
            return self._known
        gone, there = gone_and_there(self.workspace, paths)
        if gone:  # first: to make room
            self._git("update-index", "-z", "--force-remove", "--stdin", stdin=stdin_of(gone))
        self._git("update-index", "-z", "--add", "--remove", "--replace", "--stdin", stdin=stdin_of(there))
        self._known = self._git("write-tree").decode().strip()
        return self._known

    def changes(self, before: str, after: str) -> list[FileChange]:
        """Return what differs between two trees, inside the workspace."""
        self._prepare()
        words = self._git("diff-tree", "-r", "-z", "--no-renames", "--name-status", before, after).split(b"\0")
        pairs = zip(words[0::2], words[1::2], strict=False)
        found = [FileChange(status=os.fsdecode(status), path=os.fsdecode(path)) for status, path in pairs]
        return [change for change in found if (self.top / change.path).is_relative_to(self.workspace)]

    def filtered_paths(self, paths: Sequence[str]) -> set[str]:
        """Those a filter (such as LFS) stands before: what is recorded of them is not what was on disk."""
        words = self._git("check-attr", "-z", "--stdin", "filter", stdin=stdin_of(paths)).split(b"\0")
        triples = zip(words[0::3], words[2::3], strict=False)
        return {os.fsdecode(path) for path, value in triples if value not in {b"unspecified", b"unset"}}

    def write_files(self, tree: str, paths: Sequence[str]) -> None:
        """Put files of a tree (paths relative to ``top``) into the workspace, over what is there."""
        index = {"GIT_INDEX_FILE": str(self.git_dir / "rewind.index")}
        self._git("read-tree", tree, environ=index)
        self._git("checkout-index", "-z", "-f", "--stdin", stdin=stdin_of(paths), environ=index, cwd=self.top)

    def _changed_paths(self) -> list[str]:
        """Paths relative to the workspace that are new, changed or gone since the last time."""
        words = self._git("ls-files", "-z", "--modified", "--others", "--exclude-standard").split(b"\0")
        names = [os.fsdecode(word) for word in dict.fromkeys(words) if word and not word.endswith(b"/")]
        if len(names) > MOST_FILES:
            raise SnapshotError(
                f"the files of {self.workspace} are not recorded for rewind: more than {MOST_FILES} are new or "
                f"changed; "
                "list generated files in .gitignore"
            )
        return [name for name in names if _is_recordable(self.workspace / name)]

    def _prepare(self) -> None:
        """Make the private repository, or take it up again."""
        if self._ready:
            return
        if find_program("git", self._environ) is None:
            raise SnapshotError(
                f"files are not recorded for rewind: git is not installed{shunned('git', self._user_environ)}"
            )
        user = self._user_repository()
        if user is not None:
            self.top = user.top
        if not (self.git_dir / "HEAD").is_file():
            self._create(user)
        for lock in self.git_dir.glob("*.lock"):  # of a process that was killed: only one goes on with a session
            lock.unlink(missing_ok=True)
        self._ready = True
        taken = self.taken()
        self._last = taken[-1] if taken else None

    def _create(self, user: Located | None) -> None:
        try:
            for name in ("objects/info", "objects/pack", "refs", "info"):
                (self.git_dir / name).mkdir(parents=True, exist_ok=True, mode=0o700)
            (self.git_dir / "config").write_text(_CONFIG.format(_object_format(user)))
            excludes = "\n".join(DEFAULT_EXCLUDES) if user is None else text_of(user.common_dir / "info" / "exclude")
            (self.git_dir / "info" / "exclude").write_text(excludes + "\n")
            if user is not None:
                borrowed = f"{user.common_dir / 'objects'}\n"
                (self.git_dir / "objects" / "info" / "alternates").write_text(borrowed)
                if (user.git_dir / "index").is_file() and not any(user.git_dir.glob("sharedindex.*")):
                    shutil.copyfile(user.git_dir / "index", self.git_dir / "index")
            (self.git_dir / "HEAD").write_text("ref: refs/heads/none\n")
        except OSError as error:
            raise SnapshotError(f"{self.git_dir} can't be written ({error.strerror}): {remedy(error)}") from error

    def _user_repository(self) -> Located | None:
        """The repository whose files these are; one that is laid out oddly is none."""
        try:
            return locate(self.workspace)
        except (OSError, ValueError):
            return None

    def _git(
        self, *words: str, stdin: bytes = b"", environ: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> bytes:
        surroundings = {
            **self._environ,
            "GIT_DIR": str(self.git_dir),
            "GIT_WORK_TREE": str(self.top),
        }
        ended = self._run(list(words), cwd or self.workspace, {**surroundings, **(environ or {})}, stdin)
        if ended.code != 0:
            raise SnapshotError(f"the files of {self.workspace} can't be recorded: git {words[0]}: {ended.problem}")
        return ended.out

    def _run(self, words: list[str], cwd: Path, environ: Mapping[str, str], stdin: bytes) -> GitOutput:
        call = GitCall(words=tuple(words), folder=cwd, environ=environ, stdin=stdin, seconds=GIT_SECONDS)
        try:
            return run_git(call)
        except subprocess.TimeoutExpired as error:
            raise SnapshotError(f"git {words[0]} took longer than {GIT_SECONDS:.0f} s in {self.workspace}") from error
        except OSError as error:
            raise SnapshotError(f"git can't be run ({error.strerror}) in {self.workspace}") from error

    def _remember(self, snapshot: Snapshot) -> None:
        try:
            with self._log.open("ab") as log:
                log.write(msgspec.json.encode(snapshot) + b"\n")
        except OSError as error:
            raise SnapshotError(f"{self._log} can't be written ({error.strerror}): {remedy(error)}") from error


def _is_recordable(path: Path) -> bool:
    """Return whether it is a file or a link of a fair size, or gone."""
    try:
        found = path.lstat()
    except OSError:
        return True
    return path.is_symlink() or (path.is_file() and found.st_size <= MOST_BYTES)


def _object_format(user: Located | None) -> str:
    """Return how a repository names its objects."""
    try:
        settings = list(read_settings(text_of(user.common_dir / "config"))) if user is not None else []
    except GitConfigError:
        settings = []
    named = [one.value for one in settings if (one.section, one.key) == ("extensions", "objectformat")]
    return "sha256" if named[-1:] == ["sha256"] else "sha1"
