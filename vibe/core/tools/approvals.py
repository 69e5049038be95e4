"""Approvals: who may be asked, how much passes unasked, and which yeses last; one for a whole tree of agents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager

import anyio

from vibe.core.tools.permissions import ApprovalMode
from vibe.core.tools.ports import Approver

MODES = (ApprovalMode.ASK, ApprovalMode.EDITS, ApprovalMode.ALL)
"""From the narrowest to the widest."""


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
        self.mode = mode
        self.approver = approver
        self._yeses = set(remembered)
        self._keep = keep
        self.queue: AbstractAsyncContextManager[object] = anyio.Lock()

    def at_most(self, mode: ApprovalMode) -> Approvals:
        """The same approvals for a subagent, with a mode no wider than this one's."""
        view = Approvals(min(self.mode, mode, key=MODES.index), self.approver, keep=self._keep)
        view._yeses, view.queue = self._yeses, self.queue
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
