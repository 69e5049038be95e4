"""PlanTalk: the plan of a conversation, and the answers a front end gives about it; HeldTalk: what front ends share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, TypeVar

from anyio import CancelScope, Event, create_task_group, to_thread
from anyio.abc import TaskGroup
from msgspec import Struct

from ipc.commands import Pause
from ipc.errors import IpcError
from vibe.core.outcome import Outcome
from vibe.front.event_text import one_line
from vibe.system.errors import UsageError, VibeError

if TYPE_CHECKING:
    from vibe.app.conversation.conversation import Conversation
    from vibe.app.conversation.opening import Opening, Seat
    from vibe.app.conversation.runtime import Runtime
    from vibe.app.plan.dispatch import Audience
    from vibe.app.plan.drafting import PlanDraft
    from vibe.app.plan.run import PlanRun, PlanSession
    from vibe.front.slash.table import SlashTable

GRACE_SECONDS = 5.0
WARNING_LENGTH = 1_000
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


@dataclass(slots=True, kw_only=True)
class PlanTalk:
    """One plan at a time is proposed or run in a conversation.

    ``accept`` shows the last version of a draft and returns the answer, ``audience`` makes the audience of one run, and
    ``ended`` shows how it ended. ``begun`` is told each goal for which a plan is being written.
    """

    accept: Callable[[PlanDraft], Awaitable[PlanVerdict]]
    audience: Callable[[], Audience]
    ended: Callable[[PlanRun], object]
    begun: Callable[[str], object] = lambda _goal: None
    session: PlanSession | None = None
    """The plan that runs; None: none does."""
    is_taken: bool = False
    """A plan is proposed or runs."""
    _rested: Event = field(default_factory=Event, init=False)
    _planning: CancelScope | None = field(default=None, init=False)

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
            raise UsageError("a plan is being written, is proposed or runs: stop, answer or /pause it first")

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

    def interrupt(self) -> bool:
        """Stop the model that plans at once; False: none does."""
        if self._planning is None:
            return False
        self._planning.cancel()
        return True

    async def stop(self) -> None:
        """Pause the plan, if one runs, and wait until it has."""
        if self.session is not None:
            self.session.control.submit(Pause(grace_seconds=GRACE_SECONDS))
            await self._rested.wait()


class HeldTalk:
    """The part of a ``Talk`` that is the same in every front end; what is the person's alone is added to it."""

    ERROR_SIGN: ClassVar[str] = "vibe: "
    """Stands before what went wrong."""

    def __init__(self, runtime: Runtime, opening: Opening, seat: Seat, plans: PlanTalk, commands: SlashTable) -> None:
        self.runtime = runtime
        self.opening = opening
        self.seat = seat
        self.plans = plans
        self.commands = commands
        self._conversation: Conversation
        self._tasks: TaskGroup

    @property
    def conversation(self) -> Conversation:
        """The conversation that is held now."""
        return self._conversation

    async def stay(self, until_left: Callable[[], Awaitable[None]]) -> None:
        """Do what is begun until that ends; then a plan pauses, and what is at work is interrupted and written down.

        Raises:
            UsageError, EnvironmentFailure, ipc.errors.IpcError: the conversation could not be closed.
        """
        was_at_work = False
        async with create_task_group() as self._tasks:
            await until_left()
            await self.plans.stop()
            was_at_work = self.conversation.interrupt()
            self._tasks.cancel_scope.cancel()
        await self.conversation.aclose(Outcome.INTERRUPTED if was_at_work else Outcome.COMPLETED)

    def say(self, text: str) -> None:
        """Show lines of ours."""
        raise NotImplementedError

    def warn(self, warning: str) -> None:
        """Show what is wrong with something that the conversation brings."""
        self.say(f"warning: {one_line(warning, WARNING_LENGTH)}")

    def begin(self, work: Callable[..., Awaitable[None]], *arguments: object) -> None:
        """Do something beside the conversation; what goes wrong with it is shown."""
        self._tasks.start_soon(self.guarded, work, *arguments)

    async def guarded(self, work: Callable[..., Awaitable[None]], *arguments: object) -> None:
        """Do something; what goes wrong with it is shown."""
        try:
            await work(*arguments)
        except (VibeError, IpcError) as error:
            self.say(f"{self.ERROR_SIGN}{error}")

    async def reopen(self, opening: Opening) -> None:
        """Close the conversation and go on with another.

        Raises:
            UsageError, EnvironmentFailure, ipc.errors.IpcError: it could not be opened: this one goes on.
        """
        following = await self.runtime.open_conversation(opening, self.seat)
        before, self._conversation = self._conversation, following
        await before.aclose()

    def suggest(self, prompt: str) -> None:
        """Do nothing: there is no line to put a prompt in."""

    async def refresh(self) -> None:
        """Offer the commands that the conversation brings as it is now, and say what is wrong with them."""
        for warning in await to_thread.run_sync(
            self.commands.renew, self.conversation.setup.engine.guidance, self.conversation.servers
        ):
            self.warn(warning)
