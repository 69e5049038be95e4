"""Approvals: who may be asked, how much passes unasked, and which yeses last; one for a whole tree of agents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager

import anyio

from vibe.core.tools.permissions import ApprovalMode
from vibe.core.tools.ports import Approver

MODES = (ApprovalMode.ASK, ApprovalMode.EDITS, ApprovalMode.ALL)
"""From the narrowest to the widest."""
ALL_EDITS = "all edits"
"""The lasting yes that has every file edit pass that a mode could let pass."""


class Approvals:
    """How questions about tool calls are answered.

    ``approver`` None: nobody is there, so what would be asked is denied. Views of one tree share the approver, the
    lasting yeses and ``queue``, which is held while a question is open: one at a time. ``remembered`` are the yeses of
    earlier runs; ``keep`` writes those down that are to last beyond this one (None: they last as long as the run).
    """

    def __init__(
        self,
        mode: ApprovalMode = ApprovalMode.ASK,
        approver: Approver | None = None,
        *,
        remembered: Iterable[str] = (),
        keep: Callable[[Sequence[str]], None] | None = None,
    ) -> None:
        self._mode = mode
        self._most = ApprovalMode.ALL
        self.approver = approver
        self._yeses = set(remembered)
        self._keep = keep
        self.queue: AbstractAsyncContextManager[object] = anyio.Lock()

    @property
    def mode(self) -> ApprovalMode:
        """How much passes unasked, a person's yes to all edits included."""
        wanted = self._mode if ALL_EDITS not in self._yeses else max(self._mode, ApprovalMode.EDITS, key=MODES.index)
        return min(wanted, self._most, key=MODES.index)

    def at_least(self, mode: ApprovalMode) -> Approvals:
        """The same approvals for work that was accepted beforehand; what limits these limits those."""
        return self._view(max(self._mode, mode, key=MODES.index), self._most)

    def at_most(self, mode: ApprovalMode) -> Approvals:
        """The same approvals for a subagent, with a mode no wider than this one's."""
        return self._view(self._mode, min(self._most, mode, key=MODES.index))

    def _view(self, mode: ApprovalMode, most: ApprovalMode) -> Approvals:
        view = Approvals(mode, self.approver, keep=self._keep)
        view._most, view._yeses, view.queue = most, self._yeses, self.queue
        return view

    def remembers(self, keys: Iterable[str]) -> bool:
        """Whether lasting yeses cover all of ``keys`` (and there are any)."""
        wanted = set(keys)
        return bool(wanted) and wanted <= self._yeses

    @property
    def yeses(self) -> tuple[str, ...]:
        """Everything a lasting yes was given to, sorted."""
        return tuple(sorted(self._yeses))

    def remember(self, keys: Iterable[str]) -> None:
        """Say yes to ``keys`` from now on."""
        self._yeses.update(keys)

    def keep(self, keys: Sequence[str]) -> None:
        """Write ``keys`` down for later runs, where there is a place for it; blocks.

        Raises:
            VibeError: they can't be written.
        """
        if self._keep is not None:
            self._keep(keys)
