"""Shelters git from a repository's configuration: it reads a copy without anything that could start a program."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, structs

from vibe.system.git.calls import GitCall, git_environ, run_git
from vibe.system.git.config_file import quoted
from vibe.system.git.discovery import LocatedRepository

SHARED = ("HEAD", "info", "lfs", "logs", "objects", "packed-refs", "refs", "reftable", "shallow", "worktrees")
"""Git's entries in the folder that worktrees share, apart from settings, hooks and the repositories of submodules."""

LFS_VALUE = re.compile(r"git-lfs [\w %-]+|true")
"""Values that git-lfs sets for its filter."""

_HARMLESS = re.compile(
    r"core\.(filemode|symlinks|ignorecase|precomposeunicode|protecthfs|protectntfs|autocrlf|eol|checkroundtripencoding|"
    r"bigfilethreshold|compression|loosecompression|logallrefupdates|abbrev|trustctime|checkstat|quotepath|"
    r"excludesfile|attributesfile|sharedrepository|sparsecheckout|sparsecheckoutcone|longpaths|fscache|"
    r"repositoryformatversion)|"
    r"extensions\.(objectformat|refstorage|partialclone|preciousobjects)|index\.(sparse|version|threads)|i18n\..*|"
    r"(user|author|committer)\.(name|email)|merge\.(renames|renamelimit|renormalize)|diff\.(renames|renamelimit)|"
    r"remote\..*\.(fetch|promisor|partialclonefilter)"
)
_PROGRAMS = re.compile(r"filter\..*\.(clean|smudge|process|required)|merge\..*\.(driver|name|recursive)|lfs\..*")
_REMOTE_URL = re.compile(r"remote\..*\.url")
_PLAIN_URL = re.compile(r"(?:https?|ssh|git)://[^-].*|[\w.][\w.-]*@[\w.][\w.-]*:[^:].*", re.DOTALL)
_RUNS = re.compile(r"filter\..*\.(clean|smudge|process)|merge\..*\.driver")
_LFS = re.compile(r"filter\.lfs\..*")


class RepositorySetting(Struct, frozen=True, kw_only=True):
    """A repository's own setting.

    ``is_plain`` says that it is in the configuration that worktrees share, not in an include.
    """

    name: str
    value: str
    is_plain: bool


class Shelter(Struct, frozen=True, kw_only=True):
    """The environment of git for a repository: ``environ`` without ``GIT_DIR`` and the like, and its settings folder.

    ``located`` has that folder in place of the one that worktrees share. ``left_out`` are settings that would make git
    run programs during checkouts and merges, and that have no effect here.
    """

    located: LocatedRepository
    environ: Mapping[str, str]
    left_out: tuple[str, ...] = ()

    def here(self) -> dict[str, str]:
        """Return the complete environment for the worktree that was found."""
        return self.located.surroundings(self.environ)


def take_shelter(located: LocatedRepository, environ: Mapping[str, str], keep: Path, *, programs: bool) -> Shelter:
    """Return a shelter in a folder below ``keep``, which replaces what worktrees share and has settings of our own.

    With ``programs``, filters and merge drivers remain if the shared configuration itself names them at this moment. No
    command of a step may be able to write in ``keep``. Blocks.

    Raises:
        OSError: git can't be started, or the folder can't be written.
        subprocess.TimeoutExpired: git takes too long.
        ValueError: git can't read the settings.
    """
    surroundings = git_environ(environ, located.top)
    settings = read_repository_settings(located, surroundings)
    text = _config_text([setting for setting in settings if _may_stay(setting, programs=programs)])
    digest = hashlib.sha256(b"\0".join((os.fsencode(located.common_dir), text.encode("utf-8", "surrogateescape"))))
    folder = keep / digest.hexdigest()[:32]
    if not os.path.isdir(folder):
        _make(folder, located.common_dir, text)
    left_out = [s for s in settings if _RUNS.fullmatch(s.name) and not _may_stay(s, programs=programs)]
    return Shelter(
        located=structs.replace(located, common_dir=folder),
        environ=surroundings,
        left_out=tuple(dict.fromkeys(setting.name for setting in left_out)),
    )


def read_repository_settings(located: LocatedRepository, environ: Mapping[str, str]) -> tuple[RepositorySetting, ...]:
    """Return all settings of a repository itself, including included ones. Starts no program but git. Blocks.

    Raises:
        OSError, subprocess.TimeoutExpired: git can't be started, or takes too long.
        ValueError: git can't read them.
    """
    words = ("config", "--list", "-z", "--show-scope", "--show-origin", "--includes")
    answer = run_git(GitCall(words=words, folder=located.top, environ=located.surroundings(environ)))
    if answer.code != 0:
        raise ValueError(f"git can't read the settings of {str(located.common_dir)!r}: {answer.problem}")
    return tuple(_settings(os.fsdecode(answer.out).split("\0"), located))


def _settings(words: Sequence[str], located: LocatedRepository) -> Iterator[RepositorySetting]:
    plain = os.path.realpath(located.common_dir / "config")
    for scope, origin, item in zip(words[0::3], words[1::3], words[2::3], strict=False):
        if scope not in {"local", "worktree"}:
            continue
        name, found, value = item.partition("\n")
        file = os.path.realpath(located.top / origin.removeprefix("file:"))
        yield RepositorySetting(name=name, value=value if found else "true", is_plain=file == plain)


def _may_stay(setting: RepositorySetting, *, programs: bool) -> bool:
    name = setting.name
    if _HARMLESS.fullmatch(name) or (_LFS.fullmatch(name) and LFS_VALUE.fullmatch(setting.value)):
        return True
    if _REMOTE_URL.fullmatch(name):
        return bool(_PLAIN_URL.fullmatch(setting.value))
    return programs and setting.is_plain and bool(_PROGRAMS.fullmatch(name))


def _config_text(settings: Sequence[RepositorySetting]) -> str:
    lines = ["[core]", "\tbare = false"]
    for setting in settings:
        section, _, rest = setting.name.partition(".")
        subsection, _, key = rest.rpartition(".")
        lines.append(f"[{section} {quoted(subsection)}]" if subsection else f"[{section}]")
        lines.append(f"\t{key} = {quoted(setting.value)}")
    return "\n".join(lines) + "\n"


def _make(folder: Path, common_dir: Path, text: str) -> None:
    """Create the folder as a whole, or not at all."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    draft.mkdir(mode=0o700)
    try:
        for name in SHARED:
            (draft / name).symlink_to(common_dir / name)
        (draft / "config").write_text(text, encoding="utf-8", errors="surrogateescape")
        draft.rename(folder)
    except OSError:
        shutil.rmtree(draft, ignore_errors=True)
        if not os.path.isdir(folder):
            raise
