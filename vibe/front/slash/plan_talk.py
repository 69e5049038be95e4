"""PlanTalk: a conversation's plan, and the answers about it that a front end gives."""

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
    """The possible answers to a proposed plan."""

    RUN = "run"
    DROP = "drop"
    REVISE = "revise"
    """Have the model change it as ``text`` says."""
    EDIT = "edit"
    """Use the document in ``text`` as the next version."""
    SAVE = "save"
    """Write it to the file named by ``text``; the question stays open."""
    LATER = "later"
    """Do nothing for now; it will be proposed again."""


class PlanVerdict(Struct, frozen=True):
    """A person's answer to a proposed plan."""

    kind: VerdictKind
    text: str = ""


class PlanTalk(Struct, kw_only=True):
    """The state of a conversation's plan; one plan at a time is proposed or runs.

    ``accept`` shows the latest version of a draft and returns the person's verdict. ``audience`` makes the audience of
    one run, and ``ended`` shows how it ended. ``begun`` is called with each goal for which planning starts, and
    ``resumes`` with the id of each plan that is about to be resumed. With ``shows_planning``, the front end itself
    shows how planning goes and ends.
    """

    accept: Callable[[PlanDraft], Awaitable[PlanVerdict]]
    audience: Callable[[], Audience]
    ended: Callable[[PlanRun], object]
    begun: Callable[[str], object] = lambda _goal: None
    resumes: Callable[[str], Awaitable[None]] | None = None
    shows_planning: bool = False
    session: PlanSession | None = None
    """The running plan, or None."""
    _last: str = ""
    is_taken: bool = False
    """Whether a plan is proposed or running."""
    revised: list[DraftVersion] = field(default_factory=list["DraftVersion"])
    """The versions of a plan that the conversation's agent was asked to change."""
    _has_paused: Event = field(default_factory=Event)
    draft: PlanDraft | None = None
    """The plan that a model is working on, or that the person is asked about."""
    dropped: LoadedPlan | None = None
    """The plan that was dropped last."""
    _planning: CancelScope | None = None

    def take(self) -> None:
        """Record that a plan is proposed or running from now on.

        Raises:
            UsageError: there already is one.
        """
        self.check_free()
        self.is_taken = True

    def check_free(self) -> None:
        """Check that no plan is proposed or running.

        Raises:
            UsageError: there is one.
        """
        if self.is_taken:
            raise UsageError("one plan at a time: /pause the open one first")

    @property
    def latest(self) -> str:
        """The id of the plan that runs or ran last, in whatever folder; blank if none did, or it has not started."""
        return self._last if self.session is None else self.session.plan_id or ""

    @property
    def running(self) -> PlanSession:
        """The running plan.

        Raises:
            UsageError: no plan is running.
        """
        if self.session is None:
            raise UsageError("no plan is running: /plan GOAL proposes one")
        return self.session

    @contextmanager
    def at_work(self, session: PlanSession) -> Generator[None]:
        """Make ``session`` the running plan inside the block."""
        self.session, self._has_paused = session, Event()
        try:
            yield
        finally:
            self.session, self._last = None, session.plan_id or self._last
            self._has_paused.set()

    async def until_interrupted(self, work: Callable[[], Awaitable[R]]) -> R | None:
        """Have a model plan; return None if ``interrupt`` stopped it."""
        self._planning = CancelScope()
        try:
            with self._planning:
                return await work()
        finally:
            self._planning = None
        return None

    @property
    def is_planning(self) -> bool:
        """True while a model is planning."""
        return self._planning is not None

    def steer(self, text: str) -> bool:
        """Tell the model that is planning something; return False if none is, or it can't be told this."""
        return self.is_planning and self.draft is not None and self.draft.steer(text)

    def interrupt(self) -> bool:
        """Stop the model that is planning at once; return False if none is."""
        if self._planning is None:
            return False
        self._planning.cancel()
        return True

    async def stop(self) -> None:
        """Pause the running plan, if any, and wait until it has paused."""
        if self.session is not None:
            self.session.control.submit(Pause(grace_seconds=GRACE_SECONDS, by=LEFT))
            await self._has_paused.wait()
