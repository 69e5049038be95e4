"""HeldTalk: the part of a conversation's front end that is the same in each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import ClassVar, cast

from anyio import create_task_group, to_thread
from anyio.abc import TaskGroup
from msgspec.structs import replace

from ipc.errors import IpcError
from vibe.app.conversation.conversation import Conversation
from vibe.app.conversation.opening import Opening, Seat
from vibe.app.conversation.runtime import Runtime
from vibe.core.messages import Outcome
from vibe.front.event_text import one_line
from vibe.front.slash.command import Talk
from vibe.front.slash.plan_proposal import proposing
from vibe.front.slash.plan_talk import PlanTalk
from vibe.front.slash.table import SlashTable
from vibe.system.errors import VibeError

WARNING_LENGTH = 1_000


class HeldTalk:
    """The part of a ``Talk`` that is the same in every front end; what is the person's alone is added to it."""

    ERROR_SIGN: ClassVar[str] = "vibe: "
    """Stands before what went wrong."""

    def __init__(self, runtime: Runtime, opening: Opening, seat: Seat, plans: PlanTalk, commands: SlashTable) -> None:
        self.runtime = runtime
        self.opening = opening
        self.seat = replace(seat, proposing=proposing(cast("Talk", self)))
        self.plans = plans
        self.commands = commands
        self.keys: Sequence[str] = ()
        self._conversation: Conversation
        self._tasks: TaskGroup

    @property
    def conversation(self) -> Conversation:
        """The conversation that is held now."""
        return self._conversation

    @property
    def asked_at(self) -> Mapping[int, float]:
        """The times of prompts in unix seconds, as far as they are known, by the index of their message."""
        return {}

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

    def show_diff(self, title: str, fact: str, diff: str) -> None:
        """Show what changed in files."""
        self.say(f"{title}  {fact}\n{diff}")

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
