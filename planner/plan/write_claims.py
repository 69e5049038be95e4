"""The claims of steps on the files they write, and whether two claims can overlap.

A glob is relative to the workspace's root. ``*`` and ``?`` stay within one name, ``**`` spans any number of names, and
a directory covers everything below it. Two globs overlap unless they are certain to match different files.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any, TypeAlias

from ipc.events import PlanRevisedEvent
from planner.plan.model import Plan, Step
from vibe.core.config.patterns import REGEX_PREFIX, NamePatterns, canonical_tool_name, tool_spellings
from vibe.core.modes import MODE_CATALOG, ONLY_READING, ExecutionMode
from vibe.shell.sandbox.secrets import is_control, is_sensitive

Glob: TypeAlias = tuple[str, ...]
"""The names of a path, each a literal or a pattern, all case-folded."""

Claim: TypeAlias = tuple[Glob, ...]
"""All globs that a step may write; empty if it is in no other step's way."""

ANYWHERE: Glob = ("**",)
NOTHING: Claim = ()
ANYTHING: Claim = (ANYWHERE,)

_WILD = re.compile(r"[*?\[]")
_UNCERTAIN = re.compile(r"^[/~!#]|^[A-Za-z]:|[\\{}]|(^|/)\.\.(/|$)")


def claim_of(step: Step) -> Claim:
    """Return the claim that this step holds while it runs.

    A step in its own worktree disturbs no other. A command without ``writes`` is trusted to be in nobody's way. A
    model-driven step without ``writes`` may write anything if it has a tool for it.
    """
    if step.workspace == "worktree":
        return NOTHING
    if step.writes is not None:
        globs = {parse_glob(text) for text in step.writes}
        return ANYTHING if ANYWHERE in globs else tuple(sorted(globs))
    return NOTHING if step.command is not None or not may_write(step) else ANYTHING


def is_barred(text: str) -> bool:
    """Return whether a glob leads out of the workspace, or names secrets or files that decide what runs later."""
    path = PurePosixPath(text)
    leads_out = path.is_absolute() or path.parts[:1] == ("~",) or ".." in path.parts
    return leads_out or is_sensitive(path) or is_control(path)


def may_write(step: Step) -> bool:
    """Return whether the step's tools, its mode's or its own, may include one that changes files.

    Unknown tools, such as a server's or the user's, and patterns count as tools that may.
    """
    if step.allowed_tools is None and not step.denied_tools:
        return _MODE_WRITES[step.mode]
    allowed = MODE_CATALOG[step.mode].default_tools if step.allowed_tools is None else step.allowed_tools
    return any(not _only_reads(tool) and not _is_denied(tool, step.denied_tools) for tool in allowed)


def _only_reads(tool: str) -> bool:
    return canonical_tool_name(tool) in ONLY_READING


def _is_denied(tool: str, denied: Sequence[str]) -> bool:
    """Return whether a tool, or everything that a pattern could match, is certain to be denied."""
    if _WILD.search(tool) or tool.startswith(REGEX_PREFIX):
        return tool in denied or "*" in denied
    return any(map(NamePatterns(denied).matches, tool_spellings(tool)))


def accepted_writes(plan: Plan, revisions: Iterable[PlanRevisedEvent]) -> frozenset[str]:
    """Return the globs a person accepted to be written: those of ``plan`` as accepted, and of their own revisions."""
    named = {glob for step in plan.steps for glob in step.writes or ()}
    own = (operation for revision in revisions if revision.by == "user" for operation in revision.operations)
    return frozenset(named.union(*map(_named, own)))


def _named(operation: dict[str, Any]) -> list[str]:
    match operation:
        case {"op": "add_step", "step": {"writes": [*globs]}} | {"op": "update_step", "changes": {"writes": [*globs]}}:
            return [str(glob) for glob in globs]
        case _:
            return []


def parse_glob(text: str) -> Glob:
    """Return the names of a glob, or ANYWHERE if its place in the workspace is uncertain."""
    if _UNCERTAIN.search(text):
        return ANYWHERE
    text = unicodedata.normalize("NFC", text).casefold()  # names that some file systems take for the same
    names = [name for name in text.split("/") if name not in ("", ".")]
    return tuple("**" if "**" in name else name for name in names) or ANYWHERE


def claims_overlap(one: Claim, other: Claim) -> bool:
    """Return whether some file may belong to both claims."""
    return any(globs_overlap(a, b) for a in one for b in other)


def globs_overlap(one: Glob, other: Glob) -> bool:
    """Return whether some file may match both globs; True in case of doubt."""
    for a, b in zip(one, other, strict=False):
        if a == "**" or b == "**":
            return _endings_meet(one[-1], other[-1])
        if a != b and not _names_meet(a, b):
            return False
    return True


def _names_meet(a: str, b: str) -> bool:
    a_is_wild, b_is_wild = _WILD.search(a), _WILD.search(b)
    if not a_is_wild:
        return fnmatchcase(a, b) if b_is_wild else a == b
    if not b_is_wild:
        return fnmatchcase(b, a)
    head_a, head_b = a[: a_is_wild.start()], b[: b_is_wild.start()]
    tail_a, tail_b = _tail(a), _tail(b)
    heads_meet = head_a.startswith(head_b) or head_b.startswith(head_a)
    return heads_meet and (tail_a.endswith(tail_b) or tail_b.endswith(tail_a))


def _endings_meet(a: str, b: str) -> bool:
    """Return whether two last names may match one file: after ``**`` only the endings can differ, as .py and .md."""
    tail_a, tail_b = _tail(a), _tail(b)
    if not (tail_a.startswith(".") and tail_b.startswith(".")):
        return True
    return tail_a.endswith(tail_b) or tail_b.endswith(tail_a)


def _tail(name: str) -> str:
    """Return the literal text after the last wildcard, or empty if there is none or it is uncertain."""
    end = max(name.rfind("*"), name.rfind("?"), name.rfind("]"))
    return "" if end < 0 else name[end + 1 :]


_MODE_WRITES = {mode: not all(map(_only_reads, MODE_CATALOG[mode].default_tools)) for mode in ExecutionMode}
