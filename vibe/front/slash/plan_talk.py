"""PlanTalk: the plan of a conversation, and the answers a front end gives about it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from anyio import CancelScope, Event
from msgspec import Struct, field

from ipc.commands import Pause
from planner.plan.status import LEFT
from vibe.system.errors import UsageError

if TYPE_CHECKING:
    from planner.plan.loader import LoadedPlan
    from vibe.app.plan.dispatch import Audience
    from vibe.app.plan.drafting import DraftVersion, PlanDraft
    from vibe.app.plan.run import PlanRun, PlanSession

GRACE_SECONDS = 5.0
R = TypeVar("R")


class VerdictKind(StrEnum):
    """Answers to a proposed plan."""

    RUN = "run"
    DROP = "drop"
    REVISE = "revise"
    """Have it changed by the model, as ``text`` says."""
    EDIT = "edit"
    """Take the document in ``text`` as the next version."""
    SAVE = "save"
    """Write it to the file ``text``; the question stays open."""
    LATER = "later"
    """Leave it at that for now; it will be proposed again."""


class PlanVerdict(Struct, frozen=True):
    """A person's answer to a proposed plan."""

    kind: VerdictKind
    text: str = ""


class PlanTalk(Struct, kw_only=True):
    """One plan at a time is proposed or run in a conversation.

    ``accept`` shows the last version of a draft and returns the answer, ``audience`` makes the audience of one run, and
    ``ended`` shows how it ended. ``begun`` is told each goal for which a plan is being written. ``shows_planning``: the
    front end shows by itself how that goes on and ends.
    """

    accept: Callable[[PlanDraft], Awaitable[PlanVerdict]]
    audience: Callable[[], Audience]
    ended: Callable[[PlanRun], object]
    begun: Callable[[str], object] = lambda _goal: None
    shows_planning: bool = False
    session: PlanSession | None = None
    """The plan that runs; None: none does."""
    is_taken: bool = False
    """A plan is proposed or runs."""
    revised: list[DraftVersion] = field(default_factory=list["DraftVersion"])
    """The versions of a plan that the agent of the conversation is to change."""
    _rested: Event = field(default_factory=Event)
    draft: PlanDraft | None = None
    """The plan that a model works on, or the person is asked about."""
    dropped: LoadedPlan | None = None
    """The plan that was dropped last."""
    _planning: CancelScope | None = None

    def take(self) -> None:
        """Note that a plan is proposed or runs from now on.

        Raises:
            UsageError: one is or does already.
        """
        self.check_free()
        self.is_taken = True

    def check_free(self) -> None:
        """Check that no plan is proposed or runs.

        Raises:
            UsageError: one is or does.
        """
        if self.is_taken:
            raise UsageError("one plan at a time: /pause the open one first")

    @property
    def running(self) -> PlanSession:
        """The plan that runs.

        Raises:
            UsageError: none does.
        """
        if self.session is None:
            raise UsageError("no plan is running: /plan GOAL proposes one")
        return self.session

    @contextmanager
    def at_work(self, session: PlanSession) -> Generator[None]:
        """Have ``session`` be the plan that runs while the block does."""
        self.session, self._rested = session, Event()
        try:
            yield
        finally:
            self.session = None
            self._rested.set()

    async def until_interrupted(self, work: Callable[[], Awaitable[R]]) -> R | None:
        """Have a model plan; None: ``interrupt`` stopped it."""
        self._planning = CancelScope()
        try:
            with self._planning:
                return await work()
        finally:
            self._planning = None
        return None

    def steer(self, text: str) -> bool:
        """Say something to the model that plans; False: none does."""
        return self._planning is not None and self.draft is not None and self.draft.steer(text)

    def interrupt(self) -> bool:
        """Stop the model that plans at once; False: none does."""
        if self._planning is None:
            return False
        self._planning.cancel()
        return True

    async def stop(self) -> None:
        """Pause the plan, if one runs, and wait until it has."""
        if self.session is not None:
            self.session.control.submit(Pause(grace_seconds=GRACE_SECONDS, by=LEFT))
            await self._rested.wait()
