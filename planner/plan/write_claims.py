"""Claims of steps on what they write, and whether two of them can meet.

A glob is relative to the workspace's root: ``*`` and ``?`` stay within one name, ``**`` spans any number of them, and
what names a directory covers everything below it. Where it is not certain that two globs are apart, they overlap.
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
"""The names of a path, each a literal or a pattern, in one case."""

Claim: TypeAlias = tuple[Glob, ...]
"""Everything a step may write; empty: nothing that others could mind."""

ANYWHERE: Glob = ("**",)
NOTHING: Claim = ()
ANYTHING: Claim = (ANYWHERE,)

_WILD = re.compile(r"[*?\[]")
_UNCERTAIN = re.compile(r"^[/~!#]|^[A-Za-z]:|[\\{}]|(^|/)\.\.(/|$)")


def claim_of(step: Step) -> Claim:
    """Return what this step holds while it runs, as far as its neighbours are concerned.

    A step in its own worktree disturbs no other; a command that names no files is taken at its author's word; a
    model-driven step that names none may write anything, if it has a tool for it.
    """
    if step.workspace == "worktree":
        return NOTHING
    if step.writes is not None:
        globs = {parse_glob(text) for text in step.writes}
        return ANYTHING if ANYWHERE in globs else tuple(sorted(globs))
    return NOTHING if step.command is not None or not may_write(step) else ANYTHING


def is_barred(text: str) -> bool:
    """Return whether a glob leads out of the workspace, names secrets, or names what decides what runs later."""
    path = PurePosixPath(text)
    leads_out = path.is_absolute() or path.parts[:1] == ("~",) or ".." in path.parts
    return leads_out or is_sensitive(path) or is_control(path)


def may_write(step: Step) -> bool:
    """Return whether the step's tools, its mode's or its own, may include one that changes files.

    What a tool of the user's or of a server does is not known here, nor which of them a pattern matches: it may.
    """
    if step.allowed_tools is None and not step.denied_tools:
        return _MODE_WRITES[step.mode]
    allowed = MODE_CATALOG[step.mode].default_tools if step.allowed_tools is None else step.allowed_tools
    return any(not _only_reads(tool) and not _is_denied(tool, step.denied_tools) for tool in allowed)


def _only_reads(tool: str) -> bool:
    return canonical_tool_name(tool) in ONLY_READING


def _is_denied(tool: str, denied: Sequence[str]) -> bool:
    """Return whether a name, or all that a pattern could match, is denied for certain."""
    if _WILD.search(tool) or tool.startswith(REGEX_PREFIX):
        return tool in denied or "*" in denied
    return any(map(NamePatterns(denied).matches, tool_spellings(tool)))


def accepted_writes(plan: Plan, revisions: Iterable[PlanRevisedEvent]) -> frozenset[str]:
    """The files a person accepted to be written: the globs of ``plan`` as it was then, and of their own revisions."""
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
    """The names of a glob; ANYWHERE if it cannot be told where in the workspace it lies."""
    if _UNCERTAIN.search(text):
        return ANYWHERE
    text = unicodedata.normalize("NFC", text).casefold()  # one file on a file system that folds names
    names = [name for name in text.split("/") if name not in ("", ".")]
    return tuple("**" if "**" in name else name for name in names) or ANYWHERE


def claims_overlap(one: Claim, other: Claim) -> bool:
    """Return whether some file may belong to both."""
    return any(globs_overlap(a, b) for a in one for b in other)


def globs_overlap(one: Glob, other: Glob) -> bool:
    """Return whether some file may match both; True if that is not certain."""
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
    """After ``**`` only the kind of file can keep two globs apart: ``*.py`` and ``*.md``."""
    tail_a, tail_b = _tail(a), _tail(b)
    if not (tail_a.startswith(".") and tail_b.startswith(".")):
        return True
    return tail_a.endswith(tail_b) or tail_b.endswith(tail_a)


def _tail(name: str) -> str:
    """The literal text after the last wildcard; empty if there is none, or if it cannot be told."""
    end = max(name.rfind("*"), name.rfind("?"), name.rfind("]"))
    return "" if end < 0 else name[end + 1 :]


_MODE_WRITES = {mode: not all(map(_only_reads, MODE_CATALOG[mode].default_tools)) for mode in ExecutionMode}
