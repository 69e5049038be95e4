"""Decides on tool calls, each from facts gathered beforehand: no I/O.

The first rule that applies decides, in this order: hard denials, deny rules, ``never``, calls asked about each time,
allow rules (configured, then remembered approvals), sensitive paths, control paths, paths outside the workspace, the
configured level, the approval mode, the read-only sandbox. The mode only turns *ask* into *allow*, and never for a
closed path (secrets, what decides later runs, outside). No mode changes a denial.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase

from msgspec import Struct

from vibe.shell.port import ToolPermission


class PathAccess(Struct, frozen=True, kw_only=True):
    """A path a call touches, as the call spelled it."""

    path: str
    write: bool = False


class Assessment(Struct, frozen=True, kw_only=True):
    """A tool's judgement of one call. By default it touches no path and no rule applies to it."""

    paths: tuple[PathAccess, ...] = ()
    listed: ToolPermission | None = None
    """The tool's lists: NEVER if one denies it, ALWAYS if one covers all of the call, ASK to ask whatever the level is.

    Paths are compared with the lists later, on the tool's behalf and resolved, so that ``./`` and links can't hide
    them.
    """
    reason: str = ""
    """The reason to refuse it or ask about it, as a phrase ("it reaches example.com").

    Empty if the rule says it all.
    """
    must_ask: str = ""
    """The reason why a person must approve this very call, whatever else was approved. Empty if nobody must."""
    covers: tuple[str, ...] = ()
    """The calls a lasting approval covers, such as the commands of a line.

    If empty, it covers the call's resolved paths, or else its exact arguments.
    """
    read_only: bool = False
    """It could run without asking in a read-only sandbox."""
    only_reads: bool = False
    """It is known to change nothing."""


def match_lists(texts: Iterable[str], allowlist: Sequence[str], denylist: Sequence[str]) -> ToolPermission | None:
    """Return NEVER if a glob denies one of ``texts``, ALWAYS if globs allow all of them, or None."""
    given = tuple(texts)
    if any(fnmatchcase(text, glob) for text in given for glob in denylist):
        return ToolPermission.NEVER
    if given and all(any(fnmatchcase(text, glob) for glob in allowlist) for text in given):
        return ToolPermission.ALWAYS
    return None


READ_ONLY_RULE = "read_only"
"""The name of the rule that lets a call run in a read-only sandbox."""


class ApprovalMode(StrEnum):
    """Which calls that would be asked about pass without asking."""

    ASK = "ask"
    EDITS = "edits"
    ALL = "all"


class Ruling(StrEnum):
    """The outcome of a decision on a call."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class CallFacts(Struct, frozen=True, kw_only=True):
    """Everything a decision is based on."""

    tool: str
    permission: ToolPermission
    hard_denial: str = ""
    """The reason why the call is impossible, such as a path this agent may never write."""
    listed: ToolPermission | None = None
    """NEVER if a deny rule matches, ALWAYS if allow rules cover the whole call, ASK if the tool's own rules ask."""
    remembered: bool = False
    sensitive: tuple[str, ...] = ()
    """Paths of the call that may hold secrets."""
    control: tuple[str, ...] = ()
    """Paths the call writes that decide what runs later."""
    outside: tuple[str, ...] = ()
    """Paths of the call outside the workspace."""
    detail: str = ""
    """The tool's own reason for refusing or asking."""
    must_ask: str = ""
    edit: bool = False
    """It does nothing but write the files it names."""
    read_only: bool = False
    """It can run where it can only read."""
    mode: ApprovalMode = ApprovalMode.ASK


class PermissionDecision(Struct, frozen=True):
    """A ruling, the stable name of the rule it comes from, and the reason, for people."""

    ruling: Ruling
    rule: str
    reason: str


def decide(facts: CallFacts) -> PermissionDecision:
    """Return the decision of the first rule that applies to the call; without one, the ruling is to ask."""
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
