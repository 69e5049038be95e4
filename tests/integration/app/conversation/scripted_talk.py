"""ScriptedTalk: a front end for slash commands that records what they do with it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager

from anyio import create_task_group, to_thread

from tests.fakes.model_server import Reply
from tests.integration.app.conversation.conftest import Rig
from vibe.app.conversation.opening import Opening, Seat
from vibe.app.conversation.runtime import Runtime
from vibe.app.plan.dispatch import Audience
from vibe.app.plan.drafting import PlanDraft
from vibe.front.cells import text_of
from vibe.front.picker import Picker
from vibe.front.slash.command import SIGNS
from vibe.front.slash.held_talk import HeldTalk
from vibe.front.slash.plan_talk import PlanTalk, PlanVerdict, VerdictKind
from vibe.front.slash.table import SlashTable
from vibe.system.errors import VibeError


async def drop(_draft: PlanDraft) -> PlanVerdict:
    return PlanVerdict(VerdictKind.DROP)


class ScriptedTalk(HeldTalk):
    """A front end that records what commands do with it."""

    def __init__(self, runtime: Runtime, opening: Opening, seat: Seat) -> None:
        plans = PlanTalk(accept=drop, audience=Audience, ended=lambda _run: None)
        super().__init__(runtime, opening, seat, plans, SlashTable())
        self.said: list[str] = []
        self.prompts: list[str] = []
        self.clipboard = ""
        self.suggested = ""
        self.is_gone = False
        self.begun: list[Callable[[], Coroutine[None, None, None]]] = []

    async def open(self) -> None:
        self.conversation = await self.runtime.open_conversation(self.opening, self.seat)

    async def do(self, line: str) -> str:
        """Run a line, with the work it begins, and return what was said."""
        self.said.clear()
        called = self.commands.called(line)
        assert called is not None
        await called[0].handler(self, called[1])
        await self.do_begun()
        return "\n".join(self.said)

    async def do_begun(self) -> None:
        """Run the work that was begun to its end."""
        async with create_task_group() as tasks:
            for work in self.begun:
                tasks.start_soon(work)
            self.begun.clear()

    async def picker(self, command: str) -> Picker:
        """Return the list that a command offers to choose from."""
        make = self.commands[command].picker
        assert make is not None
        made = await make(self)
        assert made is not None
        return made

    async def preview(self, command: str, place: int = 0, mode: int = 0) -> str:
        """Return the preview of a row of that list."""
        picker = await self.picker(command)
        assert picker.preview is not None
        lines = await to_thread.run_sync(picker.preview, picker.rows(mode)[place], mode)
        return "\n".join(map(text_of, lines))

    def say(self, text: str, status: str = "note") -> None:
        self.said.append(SIGNS[status] + text)

    def begin(self, work: Callable[..., Awaitable[object]], *arguments: object) -> None:
        async def begun() -> None:
            try:
                await work(*arguments)
            except VibeError as error:
                self.say(str(error))

        self.begun.append(begun)

    async def send(self, prompt: str) -> None:
        self.prompts.append(prompt)
        await self.conversation.send(prompt)

    def suggest(self, prompt: str) -> None:
        self.suggested = prompt

    def copy(self, text: str) -> None:
        self.clipboard = text

    async def edit(self, text: str, name: str) -> str:
        return f"{text}\n{name}"

    def leave(self) -> None:
        self.is_gone = True


@asynccontextmanager
async def talking(rig: Rig, *replies: str, trust: bool = False) -> AsyncGenerator[ScriptedTalk]:
    """Open a conversation in which each of the ``replies`` has answered a prompt."""
    rig.server.enqueue(*(Reply(text=text) for text in replies))
    async with Runtime(rig.host) as runtime:
        talk = ScriptedTalk(runtime, rig.opening(trust=trust), rig.seat)
        await talk.open()
        for number in range(len(replies)):
            await talk.conversation.send(f"prompt {number + 1}")
        yield talk
