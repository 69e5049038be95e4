"""Approvals: who may be asked, how much passes unasked, and which yeses last; one for a whole tree of agents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager

import anyio
from msgspec import Struct

from vibe.core.tools.permissions import ApprovalMode
from vibe.core.tools.ports import Approver

MODES = (ApprovalMode.ASK, ApprovalMode.EDITS, ApprovalMode.ALL)
"""From the narrowest to the widest."""
ALL_EDITS = "all edits"
"""The lasting yes that has every file edit pass that a mode could let pass."""

BESIDE = "beside "
"""A lasting yes to writing where another does, by the other's name."""


class ApprovalTree(Struct, kw_only=True):
    """State that all views of one tree share: see ``Approvals``."""

    approver: Approver | None
    yeses: set[str]
    keep: Callable[[Sequence[str]], None]
    queue: AbstractAsyncContextManager[object]
    neighbours: Callable[[], Sequence[str]] = tuple
    """Names of others that write in the same folder: before something is written there, it is asked about."""


class Approvals:
    """Answers to questions about tool calls.

    ``approver`` None: no user is there, so what would be asked is denied. Views of one tree share the approver, the
    lasting yeses and ``queue``, which is held while a question is open: one at a time. ``remembered`` are the yeses of
    earlier runs; ``keep`` writes those down that are to last beyond this one: it blocks, and raises VibeError where it
    can't.
    """

    def __init__(
        self,
        mode: ApprovalMode = ApprovalMode.ASK,
        approver: Approver | None = None,
        *,
        remembered: Iterable[str] = (),
        keep: Callable[[Sequence[str]], None] = lambda _: None,
        tree: ApprovalTree | None = None,
    ) -> None:
        self._mode = mode
        self.tree = tree or ApprovalTree(approver=approver, yeses=set(remembered), keep=keep, queue=anyio.Lock())

    def neighbours(self) -> tuple[str, ...]:
        """Return the names of others at work in the same folder whose company is not approved."""
        return tuple(name for name in self.tree.neighbours() if not self.remembers([BESIDE + name]))

    def set_mode(self, mode: ApprovalMode) -> None:
        """Ask less or more from now on; a lasting yes to all edits is withdrawn."""
        self._mode = mode
        self.tree.yeses.discard(ALL_EDITS)

    @property
    def mode(self) -> ApprovalMode:
        """The mode in force, a person's yes to all edits included."""
        return self._mode if ALL_EDITS not in self.tree.yeses else max(self._mode, ApprovalMode.EDITS, key=MODES.index)

    def at_least(self, mode: ApprovalMode) -> Approvals:
        """The same approvals for work that was accepted beforehand."""
        return Approvals(max(self._mode, mode, key=MODES.index), tree=self.tree)

    def remembers(self, keys: Iterable[str]) -> bool:
        """Return whether lasting yeses cover all of ``keys`` (and there are any)."""
        wanted = set(keys)
        return bool(wanted) and wanted <= self.tree.yeses

    @property
    def yeses(self) -> tuple[str, ...]:
        """Everything a lasting yes was given to, sorted."""
        return tuple(sorted(self.tree.yeses))

    def remember(self, keys: Iterable[str]) -> None:
        """Say yes to ``keys`` from now on."""
        self.tree.yeses.update(keys)
