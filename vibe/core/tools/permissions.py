"""Decisions about tool calls, each from facts gathered beforehand: no I/O.

The first rule that speaks decides, in this order: hard denials, deny rules, ``never``, what is asked each time, allow
rules (configured, then remembered yeses), sensitive paths, outside the workspace, the configured level, the approval
mode. The mode turns *ask* into *allow*, but for what is closed (secrets, what decides later runs, outside), and nothing
else: no mode moves a denial.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from vibe.shell.port import ToolPermission


@dataclass(frozen=True, slots=True, kw_only=True)
class PathAccess:
    """A path a call touches, as the call wrote it."""

    path: str
    write: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
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


CLOSED_RULES = frozenset({"sensitive", "control", "outside"})
"""Files that a person opens, each time, and no mode."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFacts:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionDecision:
    """A ruling, the rule it comes from (a stable word) and why, for people."""

    ruling: Ruling
    rule: str
    reason: str


def decide(facts: CallFacts) -> PermissionDecision:
    """Decide whether the call may be."""
    spoken = _denied(facts) or _asked_each_time(facts) or _allowed_by_rule(facts)
    return spoken or _only_reading(_by_mode(_by_default(facts), facts), facts)


def _denied(facts: CallFacts) -> PermissionDecision | None:
    """Return the denials that no mode and no person moves."""
    if facts.hard_denial:
        return PermissionDecision(ruling=Ruling.DENY, rule="hard", reason=facts.hard_denial)
    if facts.listed is ToolPermission.NEVER:
        reason = f"the denylist of [tools.{facts.tool}] forbids this call{_detail(facts)}"
        return PermissionDecision(ruling=Ruling.DENY, rule="denylist", reason=reason)
    if facts.permission is ToolPermission.NEVER:
        reason = f"[tools.{facts.tool}] permission is never"
        return PermissionDecision(ruling=Ruling.DENY, rule="never", reason=reason)
    return None


def _asked_each_time(facts: CallFacts) -> PermissionDecision | None:
    """Ask for what no rule, no remembered yes and no mode allows: only a person does, each time."""
    return PermissionDecision(ruling=Ruling.ASK, rule="each_time", reason=facts.must_ask) if facts.must_ask else None


def _allowed_by_rule(facts: CallFacts) -> PermissionDecision | None:
    if facts.listed is ToolPermission.ALWAYS:
        reason = f"the allowlist of [tools.{facts.tool}] covers this call"
        return PermissionDecision(ruling=Ruling.ALLOW, rule="allowlist", reason=reason)
    if facts.remembered:
        return PermissionDecision(ruling=Ruling.ALLOW, rule="remembered", reason="approved before")
    return None


def _by_default(facts: CallFacts) -> PermissionDecision:
    """Return the decision without any mode."""
    questions = (
        ("sensitive", facts.sensitive, "may hold secrets"),
        ("control", facts.control, "decides what runs later"),
        ("outside", facts.outside, "is outside the workspace"),
    )
    for rule, paths, why in questions:
        if paths:
            return PermissionDecision(ruling=Ruling.ASK, rule=rule, reason=f"{', '.join(paths)} {why}")
    if facts.permission is ToolPermission.ALWAYS and facts.listed is not ToolPermission.ASK:
        reason = f"[tools.{facts.tool}] permission is always"
        return PermissionDecision(ruling=Ruling.ALLOW, rule="permission", reason=reason)
    reason = f"{facts.tool} needs your approval{_detail(facts)}"
    return PermissionDecision(ruling=Ruling.ASK, rule="permission", reason=reason)


def _detail(facts: CallFacts) -> str:
    return f" ({facts.detail})" if facts.detail else ""


def _only_reading(decision: PermissionDecision, facts: CallFacts) -> PermissionDecision:
    """Let pass what can do no harm."""
    if decision.ruling is not Ruling.ASK or decision.rule != "permission" or not facts.read_only:
        return decision
    reason = f"it runs in a read-only sandbox{_detail(facts)}"
    return PermissionDecision(ruling=Ruling.ALLOW, rule=READ_ONLY_RULE, reason=reason)


def _by_mode(decision: PermissionDecision, facts: CallFacts) -> PermissionDecision:
    """The mode's answer to what would be asked."""
    if decision.ruling is not Ruling.ASK or facts.mode is ApprovalMode.ASK or decision.rule in CLOSED_RULES:
        return decision
    if facts.mode is ApprovalMode.ALL:
        return PermissionDecision(ruling=Ruling.ALLOW, rule="mode", reason="everything is auto-approved")
    if facts.edit and decision.rule == "permission":
        return PermissionDecision(
            ruling=Ruling.ALLOW, rule="mode", reason="edits inside the workspace are auto-approved"
        )
    return decision
