"""HeldTalk: the part of a conversation's front end that all front ends share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

from anyio import create_task_group, to_thread
from anyio.abc import TaskGroup
from msgspec.structs import replace

from ipc.errors import IpcError
from vibe.app.conversation.conversation import Conversation
from vibe.app.conversation.opening import Opening, PromptResult, Seat
from vibe.app.conversation.runtime import Runtime
from vibe.core.messages import Outcome
from vibe.core.skills.command_files import NoSuchCommandError
from vibe.front.slash.command import Talk
from vibe.front.slash.plan_proposal import proposing
from vibe.front.slash.plan_talk import PlanTalk
from vibe.front.slash.table import SlashTable
from vibe.system.errors import VibeError, error_as
from vibe.system.plain_text import one_line

WARNING_LENGTH = 1_000


class HeldTalk:
    """The part of a ``Talk`` that all front ends share; each adds what its own person sees."""

    def __init__(self, runtime: Runtime, opening: Opening, seat: Seat, plans: PlanTalk, commands: SlashTable) -> None:
        self.runtime = runtime
        self.opening = opening
        self.seat = replace(seat, proposing=proposing(cast("Talk", self)))
        self.plans = plans
        self.commands = commands
        self.keys: Sequence[str] = ()
        self.conversation: Conversation
        """The current conversation."""
        self._tasks: TaskGroup

    @property
    def asked_at(self) -> Mapping[int, float]:
        """The times of prompts that are known, in unix seconds, by the index of their message."""
        return {}

    async def stay(self, until_left: Callable[[], Awaitable[None]]) -> None:
        """Run until ``until_left`` returns; then pause the plan, interrupt what is at work, and write it down.

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

    def say(self, text: str, status: str = "note") -> None:
        """Show lines of text from vibe itself; ``status`` is one of ``SIGNS``."""
        raise NotImplementedError

    def show_diff(self, title: str, fact: str, diff: str) -> None:
        """Show what changed in files."""
        self.say(f"{title}  {fact}\n{diff}")

    def begin(self, work: Callable[..., Awaitable[object]], *arguments: object) -> None:
        """Start work beside the conversation; an error in it is shown."""
        self._tasks.start_soon(self.guarded, work, *arguments)

    async def guarded(self, work: Callable[..., Awaitable[object]], *arguments: object) -> None:
        """Do some work and show an error in it."""
        try:
            await work(*arguments)
        except (VibeError, IpcError) as error:
            self.say(f"{error}", "error")

    async def sent(self, prompt: str, **given: Any) -> PromptResult:
        """Have the agent answer a prompt. See ``Conversation.send``."""
        with error_as(NoSuchCommandError, lambda error: error.among(self.commands)):
            return await self.conversation.send(prompt, **given)

    async def reopen(self, opening: Opening) -> None:
        """Close the conversation and continue with another.

        Raises:
            UsageError, EnvironmentFailure, ipc.errors.IpcError: it could not be opened; this conversation continues.
        """
        following = await self.runtime.open_conversation(opening, self.seat)
        before, self.conversation = self.conversation, following
        await before.aclose()

    def suggest(self, prompt: str) -> None:
        """Do nothing, because there is no input line to put a prompt in."""

    async def refresh(self) -> None:
        """Offer the commands that the conversation now brings, and report what is wrong with them."""
        for warning in await to_thread.run_sync(
            self.commands.renew, self.conversation.setup.engine.guidance, self.conversation.servers
        ):
            self.say(one_line(warning, WARNING_LENGTH), "warning")
