"""Gathering what a decision about a call rests on: its paths resolved, its lists matched."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel

from vibe.core.tools.approvals import Approvals
from vibe.core.tools.base import BaseTool, MistralHooks, assess_by_hooks
from vibe.core.tools.bounds import any_matches, glob_matches
from vibe.core.tools.errors import SEALED, PathError
from vibe.core.tools.permissions import Assessment, CallFacts, PathAccess, ToolPermission
from vibe.core.tools.workspace import Workspace
from vibe.shell.sandbox.confinement import Confinement
from vibe.shell.sandbox.secret_names import is_control, is_sensitive

AnyTool: TypeAlias = BaseTool[Any, Any, Any, Any]


class ResolvedAccess(Struct, frozen=True, kw_only=True):
    """A path of a call: as written, where it leads, and how people name it."""

    written: str
    path: Path
    shown: str
    write: bool
    secret: bool = False
    control: bool = False
    outside: bool = False

    @property
    def closed(self) -> bool:
        """Return whether only a person opens it, each time."""
        return self.secret or self.control or self.outside


class CallSubject(Struct, frozen=True, kw_only=True):
    """A call in the light of a workspace; ``keys`` are what a lasting yes to it covers.

    ``is_judged`` false: it took too long to judge, so nothing is known of what it touches. ``read_only``: once let
    through, it must run where it can only read, because it was not asked about.
    """

    tool: AnyTool
    args: BaseModel
    own: Assessment
    accesses: tuple[ResolvedAccess, ...] = ()
    keys: tuple[str, ...] = ()
    is_judged: bool = True
    read_only: bool = False

    @property
    def is_edit(self) -> bool:
        """Return whether it does nothing but write the files it names."""
        return self.tool.edits_files and bool(self.accesses)

    def granted(self, workspace: Workspace) -> Workspace:
        """The workspace in which this call, once allowed, can reach its paths."""
        for write in (False, True):
            paths = [access.path for access in self.accesses if access.outside and access.write is write]
            workspace = workspace.granting(paths, write=write) if paths else workspace
        return workspace


def subject_of(tool: AnyTool, args: BaseModel, workspace: Workspace) -> CallSubject:
    """Have the tool judge a call, once, and resolve the paths it names. Reads the file system.

    Raises:
        PathError: one of them leads nowhere.
        ToolError: the call can't be judged.
    """
    own = tool.assess(args, workspace)
    if own.paths or type(tool).assess is not cast("Any", BaseTool).assess:
        own = _narrowed(tool, args, own)
    accesses = tuple(_resolved(access, workspace) for access in own.paths)
    keys = _keys(tool.get_name(), args, own, accesses, workspace)
    return CallSubject(tool=tool, args=args, own=own, accesses=accesses, keys=keys)


def _resolved(access: PathAccess, workspace: Workspace) -> ResolvedAccess:
    path = workspace.resolve(access.path)
    write = access.write
    named = PurePath(PurePath(access.path).name)  # a link's name says what is behind it, too
    return ResolvedAccess(
        written=access.path,
        path=path,
        shown=workspace.relative(path),
        write=write,
        secret=workspace.is_secret(path, write=write) or (named.name != path.name and is_sensitive(named)),
        control=write and workspace.is_control(path),
        outside=not workspace.contains(path, write=write),
    )


def gather(
    subject: CallSubject, workspace: Workspace, approvals: Approvals, confinement: Confinement | None = None
) -> CallFacts:
    """Return all that ``decide`` needs to know about a call."""
    accesses, own = subject.accesses, subject.own
    listed = _listed(subject, own.listed, workspace.bounds.unread)
    return CallFacts(
        tool=subject.tool.get_name(),
        permission=subject.tool.config.permission,
        hard_denial=_impossible(accesses, workspace),
        listed=listed,
        remembered=approvals.remembers(subject.keys),
        sensitive=tuple(a.shown for a in accesses if a.secret),
        control=tuple(a.shown for a in accesses if a.control),
        outside=tuple(a.shown for a in accesses if a.outside),
        detail="" if listed is ToolPermission.ALWAYS else own.reason,
        must_ask=own.must_ask,
        edit=subject.is_edit,
        read_only=own.read_only and confinement is not None and confinement.can_read_only(),
        mode=approvals.mode,
    )


def _narrowed(tool: MistralHooks, args: Any, own: Assessment) -> Assessment:
    """Return the tool's own assessment with what its hooks refuse or ask about; they allow nothing that it does not."""
    cls = type(tool)
    hooks = (cls.check_allowlist_denylist, cls.resolve_permission)
    if hooks == (MistralHooks.check_allowlist_denylist, MistralHooks.resolve_permission):
        return own
    heard = assess_by_hooks(tool, args)
    stricter = heard.listed in {ToolPermission.NEVER, ToolPermission.ASK} and own.listed is not ToolPermission.NEVER
    return replace(own, listed=heard.listed, reason=heard.reason or own.reason) if stricter else own


def _impossible(accesses: Sequence[ResolvedAccess], workspace: Workspace) -> str:
    """Return why no approval can allow the call; or an empty string."""
    for access in accesses:
        if workspace.bounds.is_sealed(access.path):
            return str(PathError(access.written, SEALED))
        problem = workspace.claim_problem(access.written, access.path) if access.write else None
        if problem is not None:
            return str(problem)
    return ""


def _listed(subject: CallSubject, own: ToolPermission | None, unread: tuple[str, ...]) -> ToolPermission | None:
    """Return what the lists say: the tool's own comparison, and the resolved paths against the globs."""
    config = subject.tool.config
    denied = any(_denies(a, config.denylist if a.write else (*config.denylist, *unread)) for a in subject.accesses)
    if denied or own is ToolPermission.NEVER:
        return ToolPermission.NEVER
    if (
        own is not ToolPermission.ASK
        and subject.accesses
        and all(_covers(access, config.allowlist) for access in subject.accesses)
    ):
        return ToolPermission.ALWAYS
    return own


def _denies(access: ResolvedAccess, globs: Sequence[str]) -> bool:
    """Return whether a glob matches the path as written or where it leads, in any case of letters."""
    return any_matches((access.written.removeprefix("./"), access.shown, access.path.as_posix()), globs)


def _covers(access: ResolvedAccess, globs: Sequence[str]) -> bool:
    """Return whether a glob matches where the path leads; how it was written proves nothing.

    What is closed is covered only by a glob that names such a place itself: ``*`` does not open ``~/.bashrc``.
    """
    matching = [g for g in globs for name in (access.shown, access.path.as_posix()) if glob_matches(name, g)]
    return any(_names_closed(access, glob) for glob in matching) if access.closed else bool(matching)


def _names_closed(access: ResolvedAccess, glob: str) -> bool:
    """Return whether a glob's own words say what is closed about a path."""
    words = PurePath(os.path.expanduser(glob))  # noqa: PTH111  a glob is no path
    literal = words in {PurePath(access.shown), access.path}
    return (
        (not access.outside or words.is_absolute())
        and (not access.secret or literal or is_sensitive(words))
        and (not access.control or literal or is_control(words))
    )


def _keys(
    name: str, args: BaseModel, own: Assessment, accesses: Sequence[ResolvedAccess], workspace: Workspace
) -> tuple[str, ...]:
    """Return what a lasting yes covers: what the tool says, else its resolved paths, else exactly these arguments.

    Nothing where a person must be asked each time.
    """
    if own.must_ask or any(access.closed for access in accesses):
        return ()
    if own.covers:
        return tuple(f"{name}: {key}" for key in own.covers)
    if accesses:
        kinds = ((access, "write" if access.write else "read") for access in accesses)
        return tuple(f"{name}: {kind} {workspace.lasting(access.path)}" for access, kind in kinds)
    return (f"{name}: {json.dumps(args.model_dump(mode='json'), sort_keys=True)}",)
