"""BlobStore: contents of files in a private repository, and the names of a workspace's files as git lists them.

The user's repository, if there is one, is only read: its objects are borrowed, and its rules say what is ignored.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from vibe.core.session.errors import SnapshotError
from vibe.system.errors import remedy
from vibe.system.files import replace_file, text_of
from vibe.system.git.calls import GitCall, GitOutput, git_environ, run_git, without_fetching
from vibe.system.git.config_file import GitConfigError, read_settings
from vibe.system.git.discovery import Located, locate
from vibe.system.programs import find_program, shunned

GIT_SECONDS = 30.0
MOST_AT_ONCE = 64_000_000
"""Bytes of contents that are read back at a time."""

DEFAULT_EXCLUDES = (
    ".git/", ".venv/", "venv/", "node_modules/", "__pycache__/", ".mypy_cache/", ".pytest_cache/", ".ruff_cache/",
    ".cache/", "target/",
)  # fmt: skip
"""Paths left out where there is no repository to say so."""

_CONFIG = "[core]\n\trepositoryformatversion = 1\n\tbare = false\n[gc]\n\tauto = 0\n[extensions]\n\tobjectFormat = {}\n"
_LIST = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
_TRACKED = re.compile(r"[^?] \d{6} ([0-9a-f]+) \d\t(.+)", re.DOTALL)
_CLOSED_FOLDER = re.compile(r"could not open directory '(.+?)/?': ")


class Listing(Struct, frozen=True, kw_only=True):
    """``paths`` of a workspace that are not ignored; ``tracked`` are the blobs that git has of some of them.

    ``closed`` are folders that can't be read.
    """

    paths: AbstractSet[str]
    tracked: Mapping[str, str]
    closed: Sequence[str]


class BlobStore:
    """Everything here blocks: call it in a thread. ``environ`` is where git is looked for, and whose settings count."""

    def __init__(self, workspace: Path, git_dir: Path, environ: Mapping[str, str]) -> None:
        self.git_dir = git_dir
        self._workspace = workspace
        self._user_environ = environ
        self._environ = without_fetching(git_environ(environ, workspace))
        self._user: Located | None = None
        self._hash_name = "sha1"

    def prepare(self) -> None:
        """Make the private repository, or take it up again.

        Raises:
            SnapshotError: git is missing, or the disk refuses.
        """
        if find_program("git", self._environ) is None:
            why = shunned("git", self._user_environ)
            raise SnapshotError(f"files are not recorded for rewind: git is not installed{why}")
        with suppress(OSError, ValueError):  # one that is laid out oddly is none
            self._user = locate(self._workspace)
        if not (self.git_dir / "HEAD").is_file():
            try:
                self._create()
            except OSError as error:
                raise SnapshotError(f"{self.git_dir} can't be written ({error.strerror}): {remedy(error)}") from error
        self._hash_name = _object_format(self.git_dir)

    def listed(self, outside: Iterable[Path], *, with_blobs: bool) -> Listing:
        """The files of the workspace, but for what is ignored, in repositories within, or below ``outside``.

        Raises:
            SnapshotError: git refuses.
        """
        names = (path.relative_to(self._workspace).as_posix() for path in outside)
        # A name that differs in case alone is another file.
        words = ("-c", "core.ignoreCase=false", *_LIST, *(("-t", "--stage") if with_blobs else ()))
        answer = self._git(*words, "--", ".", *(f":(exclude,literal){name}" for name in names), by_user=True)
        if answer.code != 0:
            raise SnapshotError(f"the files of {self._workspace} can't be recorded: git ls-files: {answer.problem}")
        paths = set(os.fsdecode(answer.out).split("\0"))
        tracked: dict[str, str] = {}
        if with_blobs:
            found = [_TRACKED.fullmatch(item) for item in paths]
            tracked = {entry[2]: entry[1] for entry in found if entry is not None}
            paths = {item[2:] for item in paths if item.startswith("? ")} | tracked.keys()
        closed = _CLOSED_FOLDER.findall(os.fsdecode(answer.err))
        return Listing(
            paths={path for path in paths if path and not path.endswith("/")}, tracked=tracked, closed=closed
        )

    def name_of(self, data: bytes) -> str:
        """Return the name of the blob of ``data``."""
        digest = hashlib.new(self._hash_name, b"blob %d\0" % len(data), usedforsecurity=False)
        digest.update(data)
        return digest.hexdigest()

    def put(self, name: str, data: bytes) -> None:
        """Keep a blob.

        Raises:
            SnapshotError: the disk refuses.
        """
        file = self.git_dir / "objects" / name[:2] / name[2:]
        if file.exists():
            return
        try:
            file.parent.mkdir(exist_ok=True, mode=0o700)
            replace_file(file, zlib.compress(b"blob %d\0" % len(data) + data, 1), sync=False)
        except OSError as error:
            raise SnapshotError(f"{self.git_dir} can't be written ({error.strerror}): {remedy(error)}") from error

    def get(self, sizes: Mapping[str, int]) -> Iterator[tuple[str, bytes]]:
        """Yield blobs, of which the sizes are known, with their names; those that are gone are left out.

        Raises:
            SnapshotError: git can't be run.
        """
        batch: list[str] = []
        room = MOST_AT_ONCE
        for name, size in sizes.items():
            if batch and size > room:
                yield from self._read(batch)
                batch, room = [], MOST_AT_ONCE
            batch.append(name)
            room -= size
        yield from self._read(batch)

    def _read(self, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        out = self._git("cat-file", "--batch", stdin="".join(f"{name}\n" for name in names).encode()).out
        start = 0
        while start < len(out):
            end = out.index(b"\n", start)
            name, *rest = out[start:end].decode().split(" ")
            start = end + 1
            if len(rest) == 2:  # its kind and its size
                yield name, out[start : start + int(rest[1])]
                start += int(rest[1]) + 1

    def _create(self) -> None:
        user = self._user
        for name in ("objects/info", "objects/pack", "refs", "info"):
            (self.git_dir / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.git_dir / "config").write_text(
            _CONFIG.format("sha1" if user is None else _object_format(user.common_dir))
        )
        (self.git_dir / "info" / "exclude").write_text("\n".join((*DEFAULT_EXCLUDES, "")))
        if user is not None:
            (self.git_dir / "objects" / "info" / "alternates").write_text(f"{user.common_dir / 'objects'}\n")
        (self.git_dir / "HEAD").write_text("ref: refs/heads/none\n")

    def _git(self, *words: str, stdin: bytes = b"", by_user: bool = False) -> GitOutput:
        """Run git in the private repository or, ``by_user``, by the rules of the user's."""
        if by_user and self._user is not None:
            environ = self._user.surroundings(self._environ)
        else:
            environ = {**self._environ, "GIT_DIR": str(self.git_dir), "GIT_WORK_TREE": str(self._workspace)}
        call = GitCall(words=words, folder=self._workspace, environ=environ, stdin=stdin, seconds=GIT_SECONDS)
        try:
            return run_git(call)
        except subprocess.TimeoutExpired as error:
            raise SnapshotError(f"git took longer than {GIT_SECONDS:.0f} s in {self._workspace}") from error
        except OSError as error:
            raise SnapshotError(f"git can't be run ({error.strerror}) in {self._workspace}") from error


def _object_format(git_dir: Path) -> str:
    """Return how a repository names its objects."""
    try:
        settings = list(read_settings(text_of(git_dir / "config")))
    except GitConfigError:
        settings = []
    named = [one.value for one in settings if (one.section, one.key) == ("extensions", "objectformat")]
    return "sha256" if named[-1:] == ["sha256"] else "sha1"
