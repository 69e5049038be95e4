"""SessionMeta: what ``meta.json`` says about a session, and how older files are brought up to date."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Struct

from ipc.errors import INVALID_JSON
from vibe.core.messages import Usage
from vibe.core.session.errors import BrokenSessionError, DamagedMetaError
from vibe.core.session.foreign import is_foreign_meta, our_meta
from vibe.core.system.files import replace_file, text_of

VERSION = 1
META_FILE = "meta.json"
_TEXT = re.compile(r'"(workspace|model|agent|title|parent_id)": ?("(?:[^"\\\\]|\\\\.)*")')


class SessionMeta(Struct, frozen=True, kw_only=True):
    """A session. Times in unix seconds; ``ended`` and ``outcome`` are None while it runs or if it was killed.

    ``parent_id`` is the session this one was forked from. ``cost_usd`` None: unknown. ``usage`` counts the parents'
    too. ``origin`` is the program that wrote it, if that was not this one.
    """

    version: int
    session_id: str
    workspace: str
    model: str = ""
    agent: str = "default"
    title: str = ""
    parent_id: str | None = None
    started: float = 0.0
    ended: float | None = None
    outcome: str | None = None
    usage: Usage = Usage()
    cost_usd: float | None = None
    git_commit: str | None = None
    git_branch: str | None = None
    origin: str = ""


def _from_v0(document: dict[str, Any]) -> dict[str, Any]:
    """Files without a version: ``id`` and ``cwd`` were called so, times had other names."""
    names = {"id": "session_id", "cwd": "workspace", "start_time": "started", "end_time": "ended"}
    renamed = {names.get(name, name): value for name, value in document.items()}
    return {**renamed, "version": 1}


MIGRATIONS: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = MappingProxyType({0: _from_v0})
"""By the version a file has: what makes it one of the next."""


def read_meta(folder: Path) -> SessionMeta:
    """The meta data of the session in ``folder``; nothing is rewritten.

    Raises:
        DamagedMetaError: there is none, or it can't be understood.
        BrokenSessionError: it can't be read, or is of a newer vibe.
    """
    path = folder / META_FILE
    try:
        document = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        return msgspec.convert(_migrated(folder, document), SessionMeta)
    except OSError as error:
        kind = DamagedMetaError if isinstance(error, FileNotFoundError) else BrokenSessionError
        raise kind(folder, f"{META_FILE} can't be read ({error.strerror})") from error
    except INVALID_JSON as error:
        raise DamagedMetaError(folder, f"{META_FILE} is damaged ({error})") from error


def salvaged(folder: Path) -> dict[str, str]:
    """Return the texts in a torn ``meta.json`` that are whole, by their names."""
    found: dict[str, str] = {}
    for name, text in _TEXT.findall(text_of(folder / META_FILE)):
        with suppress(*INVALID_JSON):
            found[name] = msgspec.json.decode(text.encode(), type=str)
    return found


def write_meta(folder: Path, meta: SessionMeta) -> None:
    """Replace ``meta.json`` as a whole.

    Raises:
        OSError: the disk refuses; the old one is whole.
    """
    replace_file(folder / META_FILE, msgspec.json.format(msgspec.json.encode(meta), indent=2) + b"\n", sync=False)


def _migrated(folder: Path, document: dict[str, Any]) -> dict[str, Any]:
    version = document.get("version", 0)
    if not isinstance(version, int) or version > VERSION:
        raise BrokenSessionError(folder, f"it has version {version!r}, this vibe reads {VERSION}: use a newer vibe")
    if is_foreign_meta(document):
        return our_meta(document)
    for step in range(version, VERSION):
        document = MIGRATIONS[step](document)
    return document
