"""Gate: gathers the facts about a call, then admits it, asks the user, or gives the reason for refusing it.

Approvals hold who may be asked, how much passes without asking, and which approvals last. One whole tree of agents
shares them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path, PurePath
from typing import Any, cast
from uuid import uuid4

from anyio import Lock, move_on_after, to_thread
from msgspec import Struct, field, structs
from pydantic import BaseModel

from ipc.events import (
    ApprovalDecisionEvent,
    ApprovalRequestEvent,
    Event,
    RequestWithdrawnEvent,
    ToolQueuedEvent,
    WarningEvent,
)
from ipc.sink import EventSink
from vibe.core.tools.base import AnyTool, BaseTool, MistralHooks, ToolError, assess_by_hooks
from vibe.core.tools.errors import SEALED, PathError
from vibe.core.tools.permissions import (
    READ_ONLY_RULE,
    ApprovalMode,
    Assessment,
    CallFacts,
    PathAccess,
    PermissionDecision,
    Ruling,
    ToolPermission,
    decide,
)
from vibe.core.tools.ports import UNANSWERED, ApprovalAnswer, Approver, CallOutlook
from vibe.core.tools.workspace import Workspace, any_matches, glob_matches
from vibe.shell.sandbox.confinement import Confinement
from vibe.shell.sandbox.secrets import is_control, is_sensitive
from vibe.system.errors import VibeError

MODES = (ApprovalMode.ASK, ApprovalMode.EDITS, ApprovalMode.ALL)
"""Approval modes, from the narrowest to the widest."""
ALL_EDITS = "all edits"
"""The key of a lasting approval for every file edit that an approval mode could let pass."""

BESIDE = "beside "
"""Prefix of the key of a lasting approval to write in a folder where another run writes. The other's name follows."""


class Approvals(Struct, eq=False):
    """Answers questions about tool calls.

    ``approver`` is None if no user is there; whatever would be asked is then denied. All views of one tree of agents
    share the approver, the lasting approvals and ``queue``, a lock held while an approval is asked for, so that one is
    at a time. ``keep`` writes down approvals that should outlast this run: it blocks, and raises VibeError if it can't.
    ``writers`` returns the names of others that write in the same folder, beside whom nothing is written unasked.
    """

    _mode: ApprovalMode = ApprovalMode.ASK
    approver: Approver | None = None
    remembered: set[str] = field(default_factory=set[str])
    """All keys with a lasting approval."""
    keep: Callable[[Sequence[str]], None] = lambda _: None
    queue: AbstractAsyncContextManager[object] = field(default_factory=Lock)
    writers: Callable[[], Sequence[str]] = tuple

    def neighbours(self) -> tuple[str, ...]:
        """Return the names of others at work in the same folder beside whom writing is not approved yet."""
        return tuple(name for name in self.writers() if not self.remembers([BESIDE + name]))

    def set_mode(self, mode: ApprovalMode) -> None:
        """Ask less or more from now on. This withdraws a lasting approval of all edits."""
        self._mode = mode
        self.remembered.discard(ALL_EDITS)

    @property
    def mode(self) -> ApprovalMode:
        """The mode in force, which takes account of an approval of all edits."""
        return self._mode if ALL_EDITS not in self.remembered else max(self._mode, ApprovalMode.EDITS, key=MODES.index)

    def at_least(self, mode: ApprovalMode) -> Approvals:
        """Return the same approvals with at least this mode, for work that was accepted beforehand."""
        return structs.replace(self, _mode=max(self._mode, mode, key=MODES.index))

    def remembers(self, keys: Iterable[str]) -> bool:
        """Return whether lasting approvals cover all of ``keys``. False if there are no keys."""
        wanted = set(keys)
        return bool(wanted) and wanted <= self.remembered

    def remember(self, keys: Iterable[str]) -> None:
        """Approve ``keys`` from now on."""
        self.remembered.update(keys)


class ResolvedAccess(Struct, frozen=True, kw_only=True):
    """A path of a call: as it was written, where it leads, and its name for people."""

    written: str
    path: Path
    shown: str
    write: bool
    secret: bool = False
    control: bool = False
    outside: bool = False

    @property
    def is_closed(self) -> bool:
        """Return whether a person must open it each time."""
        return self.secret or self.control or self.outside


class CallSubject(Struct, frozen=True, kw_only=True):
    """A call as seen from a workspace.

    ``keys`` are what a lasting approval of it covers. ``is_judged`` is false if judging took too long, so that nothing
    is known about what it touches. If ``read_only``, it was admitted without asking and must run where it can only
    read. If ``was_approved``, the user was asked about this very call.
    """

    tool: AnyTool
    args: BaseModel
    assessment: Assessment
    accesses: tuple[ResolvedAccess, ...] = ()
    keys: tuple[str, ...] = ()
    is_judged: bool = True
    read_only: bool = False
    was_approved: bool = False

    @property
    def is_edit(self) -> bool:
        """Return whether the call does nothing but write the files it names."""
        return self.tool.edits_files and bool(self.accesses)

    def granted(self, workspace: Workspace) -> Workspace:
        """Return the workspace in which this call, once allowed, can reach its paths, if they still lead there."""
        workspace = structs.replace(workspace, admitted={access.written: access.path for access in self.accesses})
        for write in (False, True):
            paths = [access.path for access in self.accesses if access.outside and access.write is write]
            workspace = workspace.granting(paths, write=write) if paths else workspace
        return workspace


def subject_of(tool: AnyTool, args: BaseModel, workspace: Workspace) -> CallSubject:
    """Have the tool judge a call once, and resolve the paths it names. Reads the file system.

    Raises:
        PathError: one of them leads nowhere.
        ToolError: the call can't be judged.
    """
    own = tool.assess(args, workspace)
    if own.paths or type(tool).assess is not cast("Any", BaseTool).assess:
        own = _with_hooks(tool, args, own)
    accesses = tuple(_resolved(access, workspace) for access in own.paths)
    keys = _approval_keys(tool.get_name(), args, own, accesses, workspace)
    return CallSubject(tool=tool, args=args, assessment=own, accesses=accesses, keys=keys)


def _resolved(access: PathAccess, workspace: Workspace) -> ResolvedAccess:
    path = workspace.resolve(access.path)
    write = access.write
    named = PurePath(PurePath(access.path).name)  # The name of a link also tells what is behind it.
    return ResolvedAccess(
        written=access.path,
        path=path,
        shown=workspace.relative(path),
        write=write,
        secret=workspace.is_secret(path, write=write) or (named.name != path.name and is_sensitive(named)),
        control=write and workspace.is_control(path),
        outside=not workspace.contains(path, write=write),
    )


def _with_hooks(tool: MistralHooks, args: Any, own: Assessment) -> Assessment:
    """Return the tool's own assessment, made stricter by what its hooks refuse or ask about. Hooks can't allow more."""
    cls = type(tool)
    hooks = (cls.check_allowlist_denylist, cls.resolve_permission)
    if hooks == (MistralHooks.check_allowlist_denylist, MistralHooks.resolve_permission):
        return own
    by_hooks = assess_by_hooks(tool, args)
    stricter = by_hooks.listed in {ToolPermission.NEVER, ToolPermission.ASK} and own.listed is not ToolPermission.NEVER
    return structs.replace(own, listed=by_hooks.listed, reason=by_hooks.reason or own.reason) if stricter else own


def _hard_denial(accesses: Sequence[ResolvedAccess], workspace: Workspace) -> str:
    """Return why no approval can allow the call, or an empty string."""
    for access in accesses:
        if workspace.bounds.is_sealed(access.path):
            return str(PathError(access.written, SEALED))
        problem = workspace.claim_problem(access.written, access.path) if access.write else None
        if problem is not None:
            return str(problem)
    return ""


def _listed(subject: CallSubject, own: ToolPermission | None, unread: tuple[str, ...]) -> ToolPermission | None:
    """Return the lists' verdict: the tool's own comparison, and the resolved paths compared with the globs."""
    config = subject.tool.config
    denied = any(_denies(a, config.denylist if a.write else (*config.denylist, *unread)) for a in subject.accesses)
    if denied or own is ToolPermission.NEVER:
        return ToolPermission.NEVER
    covered = bool(subject.accesses) and all(_covers(access, config.allowlist) for access in subject.accesses)
    return ToolPermission.ALWAYS if covered and own is not ToolPermission.ASK else own


def _denies(access: ResolvedAccess, globs: Sequence[str]) -> bool:
    """Return whether a glob matches the path as written or where it leads, ignoring case."""
    return any_matches((access.written.removeprefix("./"), access.shown, access.path.as_posix()), globs)


def _covers(access: ResolvedAccess, globs: Sequence[str]) -> bool:
    """Return whether a glob matches where the path leads. How it was written proves nothing.

    A closed path is only covered by a glob that names such a place itself: ``*`` does not open ``~/.bashrc``.
    """
    matching = [g for g in globs for name in (access.shown, access.path.as_posix()) if glob_matches(name, g)]
    return any(_spells_out_closed(access, glob) for glob in matching) if access.is_closed else bool(matching)


def _spells_out_closed(access: ResolvedAccess, glob: str) -> bool:
    """Return whether the glob itself spells out why a path is closed."""
    words = PurePath(os.path.expanduser(glob))  # noqa: PTH111  a glob is no path
    literal = words in {PurePath(access.shown), access.path}
    return (
        (not access.outside or words.is_absolute())
        and (not access.secret or literal or is_sensitive(words))
        and (not access.control or literal or is_control(words))
    )


def _approval_keys(
    name: str, args: BaseModel, own: Assessment, accesses: Sequence[ResolvedAccess], workspace: Workspace
) -> tuple[str, ...]:
    """Return what a lasting approval covers: the tool's own keys, else its resolved paths, else these exact arguments.

    Empty if a person must be asked each time.
    """
    if own.must_ask or any(access.is_closed for access in accesses):
        return ()
    if own.covers:
        return tuple(f"{name}: {key}" for key in own.covers)
    if accesses:
        kinds = ((access, "write" if access.write else "read") for access in accesses)
        return tuple(f"{name}: {kind} {workspace.path_to_approve(access.path)}" for access, kind in kinds)
    return (f"{name}: {json.dumps(args.model_dump(mode='json', fallback=repr, warnings=False), sort_keys=True)}",)


JUDGING_SECONDS = 5
"""The most seconds spent judging one call. The rules read the file system, and what they judge comes from a model."""


class CallRefusal(Struct, frozen=True, kw_only=True):
    """The reason why a call may not run. ``by`` is ``rule``, ``headless`` or ``user``."""

    by: str
    reason: str


class Gate(Struct, eq=False):
    """Decides on the calls of one agent, and announces questions and their answers.

    ``preview`` returns what a call would do, for the question about it. It reads files, and raises ToolError if the
    call would fail. Each call comes with a ``draft`` of its approval request.
    """

    workspace: Workspace
    approvals: Approvals
    sink: EventSink
    confinement: Confinement | None = None
    preview: Callable[[CallSubject], CallOutlook] = lambda _: CallOutlook()
    _judging: Lock = field(default_factory=partial(Lock, fast_acquire=True))

    def judge(self, tool: AnyTool, args: BaseModel) -> tuple[CallSubject, PermissionDecision]:
        """Return what a call is about and the rules' decision, before anybody is asked. Reads the file system.

        Raises:
            PathError: a path of the call leads nowhere.
            ToolError: the tool can't judge it.
        """
        subject = subject_of(tool, args, self.workspace)
        return subject, self._decide(subject)

    def _decide(self, subject: CallSubject) -> PermissionDecision:
        """Return the rules' decision on all that is known about a call."""
        accesses, own = subject.accesses, subject.assessment
        listed = _listed(subject, own.listed, self.workspace.bounds.unread)
        facts = CallFacts(
            tool=subject.tool.get_name(),
            permission=subject.tool.config.permission,
            hard_denial=_hard_denial(accesses, self.workspace),
            listed=listed,
            remembered=self.approvals.remembers(subject.keys),
            sensitive=tuple(a.shown for a in accesses if a.secret),
            control=tuple(a.shown for a in accesses if a.control),
            outside=tuple(a.shown for a in accesses if a.outside),
            detail="" if listed is ToolPermission.ALWAYS else own.reason,
            must_ask=own.must_ask,
            edit=subject.is_edit,
            read_only=own.read_only and self.confinement is not None and self.confinement.can_read_only(),
            mode=self.approvals.mode,
        )
        return decide(facts)

    async def admit(self, tool: AnyTool, args: BaseModel, draft: ApprovalRequestEvent) -> CallRefusal | CallSubject:
        """Admit the call, or return why it is refused. If the decision is to ask, wait for the user, if there is one.

        Raises:
            PathError: a path of the call leads nowhere.
            ToolError: the tool can't judge it, or it is an edit that can't be made.
        """
        subject, decision = await self._judge_in_time(tool, args)
        if subject.is_edit or decision.ruling is Ruling.ASK:
            refusal = await self._ask_about_others(subject, draft, decision)
            if refusal is not None:
                return refusal
        if decision.ruling is Ruling.ALLOW:
            return structs.replace(subject, read_only=decision.rule == READ_ONLY_RULE)
        if decision.ruling is Ruling.DENY:
            return CallRefusal(by="rule", reason=decision.reason)
        return await self._ask_in_turn(subject, draft, decision)

    async def ask_about(
        self, subject: CallSubject, draft: ApprovalRequestEvent, reason: str, rule: str = "permission"
    ) -> CallRefusal | CallSubject:
        """Ask about a call that was admitted, since something else is a ``reason`` to: its sandbox, or a hook."""
        return await self._ask_in_turn(subject, draft, PermissionDecision(Ruling.ASK, rule, reason))

    async def _ask_in_turn(
        self, subject: CallSubject, draft: ApprovalRequestEvent, decision: PermissionDecision
    ) -> CallRefusal | CallSubject:
        """Ask the user, unless the answer is known by the time the question's turn comes."""
        if self.approvals.approver is None:
            reason = f"{decision.reason}, and no one can approve in this run"
            # In the mode that approves all it can, the rules refuse this call whether or not a person is there.
            by = "rule" if self.approvals.mode is ApprovalMode.ALL else "headless"
            request = _approval_request(subject, draft, decision, self._bare_outlook())
            self.sink.publish(request)
            self.sink.publish(ApprovalDecisionEvent(request_id=request.request_id, decision="deny", reason=reason))
            return CallRefusal(by=by, reason=reason)
        queue = self.approvals.queue
        if isinstance(queue, Lock) and queue.locked():
            event = ToolQueuedEvent(
                tool_call_id=draft.tool_call_id, tool=draft.tool, summary=draft.summary, waits_for="request"
            )
            self.sink.publish(event)
        async with queue:
            # All edits may have been approved while this call waited for its turn.
            is_approved = _is_open_edit(subject, decision) and self.approvals.mode is not ApprovalMode.ASK
            if is_approved or self.approvals.remembers(subject.keys):
                return subject
            try:
                outlook = await to_thread.run_sync(self.preview, subject)
            except ToolError:
                if _is_open_edit(subject, decision):
                    raise  # It would fail anyway, so there is nothing to approve.
                outlook = self._bare_outlook()
            request = _approval_request(subject, draft, decision, outlook)
            refusal = await self._ask(self.approvals.approver, request)
            return refusal or structs.replace(subject, was_approved=True)

    async def _ask_about_others(
        self, subject: CallSubject, draft: ApprovalRequestEvent, decision: PermissionDecision
    ) -> CallRefusal | None:
        """Ask, once, whether to write where others write. Return the refusal if the user says no."""
        approvals = self.approvals
        others, approver = approvals.neighbours(), approvals.approver
        # Without an approver they take turns instead.
        if approver is None or not others or decision.ruling is Ruling.DENY or approvals.mode is ApprovalMode.ALL:
            return None
        reason = f"{' and '.join(others)} is writing in this folder too"
        async with approvals.queue:
            asked = PermissionDecision(Ruling.ASK, "workspace", reason)
            keys = [BESIDE + name for name in approvals.neighbours()]
            request = _approval_request(subject, draft, asked, self._bare_outlook())
            request = structs.replace(request, covers=tuple(keys), edits=False)
            refusal = await self._ask(approver, request) if keys else None
        if refusal is None:
            approvals.remember(keys)
        return refusal

    async def _judge_in_time(self, tool: AnyTool, args: BaseModel) -> tuple[CallSubject, PermissionDecision]:
        """Judge a call off the event loop. One that takes too long must be asked about, whatever the mode.

        Calls are judged one at a time, first come first served, so that questions come in the order of the calls.
        """
        async with self._judging:
            with move_on_after(JUDGING_SECONDS):
                return await to_thread.run_sync(self.judge, tool, args, abandon_on_cancel=True)
        reason = f"it could not be judged within {JUDGING_SECONDS} s"
        unknown = CallSubject(tool=tool, args=args, assessment=Assessment(must_ask=reason), is_judged=False)
        return unknown, self._decide(unknown)

    def _bare_outlook(self) -> CallOutlook:
        """Return the outlook of a call that was not looked into: only its folder is known."""
        return CallOutlook(cwd=str(self.workspace.root))

    async def _ask(self, approver: Approver, request: ApprovalRequestEvent) -> CallRefusal | None:
        self.sink.publish(request)
        why = "the call was aborted"
        outcome: Event = RequestWithdrawnEvent(request_id=request.request_id, kind="approval", reason=why)
        try:
            answer = await approver.approve(request)
            outcome = _decision_event(request, answer)
        except Exception:
            outcome = _decision_event(request, ApprovalAnswer(allow=False, reason="no one could be asked", by="nobody"))
            raise
        finally:
            self.sink.publish(outcome)
        if not answer.allow:
            by = "headless" if answer.by in UNANSWERED else "user"
            return CallRefusal(by=by, reason=answer.reason or "the user said no")
        if answer.scope == "edits":
            self.approvals.remember([ALL_EDITS])
        elif answer.scope != "once":
            self.approvals.remember(request.covers)
        if answer.scope == "always":
            await self._keep(request.covers)
        return None

    async def _keep(self, keys: Sequence[str]) -> None:
        try:
            await to_thread.run_sync(self.approvals.keep, keys)
        except VibeError as error:
            message = f"this approval is valid for this run only: {error}"
            self.sink.publish(WarningEvent(code="approval.not_kept", message=message))


def _decision_event(request: ApprovalRequestEvent, answer: ApprovalAnswer) -> ApprovalDecisionEvent:
    decision = "allow" if answer.allow else "deny"
    return ApprovalDecisionEvent(
        request_id=request.request_id, decision=decision, scope=answer.scope, reason=answer.reason, by=answer.by
    )


def _is_open_edit(subject: CallSubject, decision: PermissionDecision) -> bool:
    """Return whether an approval of all edits covers the call."""
    return subject.is_edit and decision.rule == "permission"


def _approval_request(
    subject: CallSubject, draft: ApprovalRequestEvent, decision: PermissionDecision, outlook: CallOutlook
) -> ApprovalRequestEvent:
    return structs.replace(
        draft,
        request_id=uuid4().hex,
        rule=decision.rule,
        reason=decision.reason,
        covers=subject.keys,
        edits=_is_open_edit(subject, decision),
        diff=outlook.diff,
        preview=outlook.display,
        cwd=outlook.cwd,
        confined=outlook.confined,
    )
