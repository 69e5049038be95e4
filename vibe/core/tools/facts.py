"""Gathering what a decision about a call rests on: its paths resolved, its lists matched."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import Any, TypeAlias

from pydantic import BaseModel

from vibe.core.tools.approvals import Approvals
from vibe.core.tools.base import BaseTool, ToolPermission
from vibe.core.tools.permissions import CallFacts, is_control, is_sensitive
from vibe.core.tools.workspace import Workspace

AnyTool: TypeAlias = BaseTool[Any, Any, Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedAccess:
    """A path of a call: as written, where it leads, and how people name it."""

    written: str
    path: Path
    shown: str
    write: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSubject:
    """A call in the light of a workspace; ``keys`` are what a lasting yes to it covers."""

    tool: AnyTool
    args: BaseModel
    accesses: tuple[ResolvedAccess, ...]
    keys: tuple[str, ...]

    def outside(self, workspace: Workspace) -> tuple[ResolvedAccess, ...]:
        """The paths the workspace does not hold."""
        return tuple(a for a in self.accesses if not workspace.contains(a.path, write=a.write))

    def granted(self, workspace: Workspace) -> Workspace:
        """The workspace in which this call, once allowed, can reach its paths."""
        for write in (False, True):
            paths = [access.path for access in self.outside(workspace) if access.write is write]
            workspace = workspace.granting(paths, write=write) if paths else workspace
        return workspace


def subject_of(tool: AnyTool, args: BaseModel, workspace: Workspace) -> CallSubject:
    """Resolve the paths of a call.

    Raises:
        PathError: one of them leads nowhere.
    """
    accesses = tuple(
        ResolvedAccess(written=a.path, path=path, shown=workspace.relative(path), write=a.write)
        for a in tool.accesses(args)
        for path in (workspace.resolve(a.path),)
    )
    return CallSubject(tool=tool, args=args, accesses=accesses, keys=_keys(tool, args, accesses))


def gather(subject: CallSubject, workspace: Workspace, approvals: Approvals) -> CallFacts:
    """Everything ``decide`` needs to know about a call."""
    accesses = subject.accesses
    listed = _listed(subject, workspace)
    passes = listed is ToolPermission.ALWAYS
    return CallFacts(
        tool=subject.tool.get_name(),
        permission=subject.tool.config.permission,
        hard_denial=_unclaimed(accesses, workspace),
        listed=listed,
        remembered=approvals.remembers(subject.keys),
        sensitive=tuple(a.shown for a in accesses if is_sensitive(a.path)),
        control=tuple(a.shown for a in accesses if a.write and is_control(PurePath(a.shown))),
        outside=tuple(a.shown for a in subject.outside(workspace)),
        detail="" if passes else subject.tool.reason_in_workspace(subject.args, workspace),
        must_ask=subject.tool.must_ask(subject.args),
        mode=approvals.mode,
    )


def _unclaimed(accesses: Sequence[ResolvedAccess], workspace: Workspace) -> str:
    for access in accesses:
        problem = workspace.claim_problem(access.written, access.path) if access.write else None
        if problem is not None:
            return str(problem)
    return ""


def _listed(subject: CallSubject, workspace: Workspace) -> ToolPermission | None:
    """What the lists say: the tool's own comparison, and the resolved paths against the globs."""
    config = subject.tool.config
    own = subject.tool.check_in_workspace(subject.args, workspace)
    denied = any(_denies(access, config.denylist) for access in subject.accesses)
    if denied or own is ToolPermission.NEVER:
        return ToolPermission.NEVER
    if subject.accesses and all(_covers(access, config.allowlist) for access in subject.accesses):
        return ToolPermission.ALWAYS
    return own


def _denies(access: ResolvedAccess, globs: Sequence[str]) -> bool:
    """Whether a glob matches the path as written or where it leads, in any case of letters."""
    names = (access.written.removeprefix("./"), access.shown, access.path.as_posix())
    return any(_matches(name.casefold(), glob.casefold()) for name in names for glob in globs)


def _covers(access: ResolvedAccess, globs: Sequence[str]) -> bool:
    """Whether a glob matches where the path leads; how it was written proves nothing."""
    return any(_matches(name, glob) for name in (access.shown, access.path.as_posix()) for glob in globs)


def _matches(name: str, glob: str) -> bool:
    """Whether ``glob`` matches a path, or names a folder above it."""
    pattern = os.path.expanduser(glob).removesuffix("/")  # noqa: PTH111  a glob is no path
    return fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}/*")


def _keys(tool: AnyTool, args: BaseModel, accesses: Sequence[ResolvedAccess]) -> tuple[str, ...]:
    """What a lasting yes covers: what the tool says, else its resolved paths, else exactly these arguments.

    Nothing where a person must be asked each time.
    """
    name = tool.get_name()
    if tool.must_ask(args):
        return ()
    own = tool.approval_keys(args)
    if own:
        return tuple(f"{name}: {key}" for key in own)
    if accesses:
        return tuple(f"{name}: {'write' if access.write else 'read'} {access.path}" for access in accesses)
    return (f"{name}: {json.dumps(args.model_dump(mode='json'), sort_keys=True)}",)
