"""Decisions about tool calls, each from facts gathered beforehand: no I/O.

The first rule that speaks decides, in this order: hard denials, deny rules, ``never``, what is asked each time, allow
rules (configured, then remembered yeses), sensitive paths, outside the workspace, the configured level, the approval
mode. The mode turns *ask* into *allow*, but for what is closed (secrets, what decides later runs, outside), and nothing
else: no mode moves a denial.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase

from msgspec import Struct

from vibe.shell.port import ToolPermission


class PathAccess(Struct, frozen=True, kw_only=True):
    """A path a call touches, as the call wrote it."""

    path: str
    write: bool = False


class Assessment(Struct, frozen=True, kw_only=True):
    """A call as its tool judges it; by default: it touches no path, and the tool has no rule for it."""

    paths: tuple[PathAccess, ...] = ()
    listed: ToolPermission | None = None
    """By the tool's lists: NEVER where one denies, ALWAYS where one covers the whole call, ASK whatever the level is.

    Paths are compared with the lists for the tool, resolved, where ``./`` and links can't hide them.
    """
    reason: str = ""
    """Why it is refused or needs a yes, as a phrase ("it reaches example.com"); empty: the rule says it all."""
    must_ask: str = ""
    """Why a person must say yes to this very call, whatever else was approved; empty: approval is not needed."""
    covers: tuple[str, ...] = ()
    """The calls a lasting yes covers (the commands of a line); empty: its resolved paths, else its exact arguments."""
    read_only: bool = False
    """It could run unasked in a read-only sandbox."""
    only_reads: bool = False
    """It is known to change nothing."""


def listed(texts: Iterable[str], allowlist: Sequence[str], denylist: Sequence[str]) -> ToolPermission | None:
    """Return NEVER if a glob denies one of ``texts``, ALWAYS if globs allow all of them, None if neither."""
    given = tuple(texts)
    if any(fnmatchcase(text, glob) for text in given for glob in denylist):
        return ToolPermission.NEVER
    if given and all(any(fnmatchcase(text, glob) for glob in allowlist) for text in given):
        return ToolPermission.ALWAYS
    return None


READ_ONLY_RULE = "read_only"
"""The rule by which a call runs in a read-only sandbox."""


class ApprovalMode(StrEnum):
    """Reach of the answers to *ask* that need no person."""

    ASK = "ask"
    EDITS = "edits"
    ALL = "all"


class Ruling(StrEnum):
    """Outcome of a decision about a call."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class CallFacts(Struct, frozen=True, kw_only=True):
    """Everything a decision rests on.

    ``hard_denial`` says why the call can't be (a path this agent may never write); ``listed`` is NEVER where a deny
    rule matches, ALWAYS where the allow rules cover the whole call, ASK where the tool's own rules ask; ``detail`` is
    the tool's own word on why it is refused or asked about. ``sensitive``, ``control`` (written) and ``outside`` name
    the paths of the call that are such. ``edit``: it writes the files it names and does nothing else. ``read_only``:
    it can run where it can only read.
    """

    tool: str
    permission: ToolPermission
    hard_denial: str = ""
    listed: ToolPermission | None = None
    remembered: bool = False
    sensitive: tuple[str, ...] = ()
    control: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    detail: str = ""
    must_ask: str = ""
    edit: bool = False
    read_only: bool = False
    mode: ApprovalMode = ApprovalMode.ASK


class PermissionDecision(Struct, frozen=True):
    """A ruling, the rule it comes from (a stable word) and why, for people."""

    ruling: Ruling
    rule: str
    reason: str


def decide(facts: CallFacts) -> PermissionDecision:
    """Decide whether the call may be: the first rule that applies says it."""
    settings, detail = f"[tools.{facts.tool}]", f" ({facts.detail})" if facts.detail else ""
    never, always = ToolPermission.NEVER, ToolPermission.ALWAYS
    allowed = facts.permission is always and facts.listed is not ToolPermission.ASK
    edits = facts.edit and facts.mode is ApprovalMode.EDITS
    rules = (
        (facts.hard_denial, Ruling.DENY, "hard", facts.hard_denial),
        (facts.listed is never, Ruling.DENY, "denylist", f"the denylist of {settings} forbids this call{detail}"),
        (facts.permission is never, Ruling.DENY, "never", f"{settings} permission is never"),
        (facts.must_ask, Ruling.ASK, "each_time", facts.must_ask),
        (facts.listed is always, Ruling.ALLOW, "allowlist", f"the allowlist of {settings} covers this call"),
        (facts.remembered, Ruling.ALLOW, "remembered", "approved before"),
        (facts.sensitive, Ruling.ASK, "sensitive", f"{', '.join(facts.sensitive)} may hold secrets"),
        (facts.control, Ruling.ASK, "control", f"{', '.join(facts.control)} decides what runs later"),
        (facts.outside, Ruling.ASK, "outside", f"{', '.join(facts.outside)} is outside the workspace"),
        (allowed, Ruling.ALLOW, "permission", f"{settings} permission is always"),
        (facts.mode is ApprovalMode.ALL, Ruling.ALLOW, "mode", "everything is auto-approved"),
        (edits, Ruling.ALLOW, "mode", "edits inside the workspace are auto-approved"),
        (facts.read_only, Ruling.ALLOW, READ_ONLY_RULE, f"it runs in a read-only sandbox{detail}"),
    )
    asks = PermissionDecision(Ruling.ASK, "permission", f"{facts.tool} needs your approval{detail}")
    decisions = (PermissionDecision(ruling, rule, reason) for applies, ruling, rule, reason in rules if applies)
    return next(decisions, asks)
