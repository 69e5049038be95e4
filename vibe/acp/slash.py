"""EditorTalk: the slash commands of an editor's session, and plans in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from types import MappingProxyType

from acp import schema
from anyio import create_task_group

from ipc.events import PlanDecisionEvent
from planner.plan.loader import LoadedPlan
from vibe.acp.session import EditorSession, SessionCommands
from vibe.app.conversation.conversation import Conversation
from vibe.app.conversation.opening import Opening
from vibe.app.plan.command_consent import model_commands
from vibe.app.plan.dispatch import Audience
from vibe.app.plan.drafting import PlanDraft
from vibe.app.plan.run import PlanRun
from vibe.front.event_text import one_line
from vibe.front.plan_graph import plan_text
from vibe.front.plan_summary import summary_text
from vibe.front.slash.command import SlashCommand, Typed
from vibe.front.slash.held_talk import HeldTalk
from vibe.front.slash.plan_proposal import propose
from vibe.front.slash.plan_talk import PlanTalk, PlanVerdict, VerdictKind
from vibe.front.slash.table import SlashTable
from vibe.system.errors import UsageError
from vibe.system.plain_text import plain

LINE_LENGTH = 400
RUN, CHANGE = "run", "change"
PLAN_ANSWERS = MappingProxyType({RUN: "Run it", CHANGE: "Change it: I'll describe how"})
NOT_HERE = frozenset({"copy", "exit", "resume"})
"""Commands for which an editor has its own ways."""


class EditorTalk(HeldTalk, SessionCommands):
    """The ``Talk`` of one session. What a command begins belongs to its turn, and ends with it."""

    def __init__(self, session: EditorSession) -> None:
        plans = PlanTalk(accept=self._accept, audience=self._audience, ended=self._ended)
        commands = SlashTable({
            name: SlashCommand(name=name, about="the editor's own", handler=_refuse) for name in NOT_HERE
        })
        super().__init__(session.runtime, session.opening, session.seat, plans, commands)
        self.keys: Sequence[str] = ()
        self._session, self._person = session, session.person
        session.seat = self.seat
        self._open_plan: LoadedPlan | None = None  # the next prompt says how it is to be changed

    @property
    def conversation(self) -> Conversation:
        """The conversation of the session."""
        return self._session.conversation

    async def renew(self) -> list[schema.AvailableCommand]:
        """Return the commands there are now; reads files."""
        await super().refresh()
        offered = (one for one in self.commands.values() if one.name not in NOT_HERE)
        return [_offered(one) for one in offered]

    async def run(self, line: str, answer: Callable[[], Awaitable[None]]) -> None:
        """Carry a line out, to the end of all it begins; what goes wrong with a command is said.

        ``answer`` does so with one that is no command, and does not say how to change the plan that is proposed.

        Raises:
            UsageError: it can't be answered as it is.
        """
        called = self.commands.called(line)
        problem: Exception | None = None
        async with create_task_group() as self._tasks:
            if called is not None:
                command, typed = called
                await self.guarded(command.handler, self, typed)
            elif self._open_plan is not None and not line.startswith("/"):
                await self.guarded(self._revise, self._open_plan, line)
            else:
                try:
                    await answer()
                except Exception as error:  # noqa: BLE001  raised below: the group would wrap it
                    problem = error
                self._open_plan = None  # the agent that proposed it is told the next prompt
        if problem is not None:
            raise problem

    async def stop(self) -> None:
        """Have a plan that runs pause."""
        await self.plans.stop()

    def say(self, text: str) -> None:
        """Show lines of ours."""
        self._session.say(plain(text))

    def warn(self, warning: str) -> None:
        """Show what is wrong with something that the conversation brings."""
        self.say(f"warning: {one_line(warning, LINE_LENGTH)}")

    async def reopen(self, opening: Opening) -> None:
        """Refuse to continue another conversation: a session of an editor is one.

        Raises:
            UsageError: always.
        """
        raise UsageError(f"that would start another session in {opening.workdir}: start or load one in the editor")

    async def send(self, prompt: str) -> None:
        """Have the agent answer a prompt, in this turn."""
        self.begin(self._session.answer, prompt)

    async def refresh(self) -> None:
        """Offer the commands that the conversation brings as it is now."""
        await self._session.offer_commands()

    def copy(self, text: str) -> None:
        """Refuse to fill a clipboard, which is the editor's.

        Raises:
            UsageError: always.
        """
        raise UsageError(f"the clipboard is the editor's: select the {len(text)} characters there")

    async def edit(self, text: str, name: str) -> str:
        """Refuse to have a text changed in another editor.

        Raises:
            UsageError: always.
        """
        raise UsageError(f"no other editor for {name} ({len(text)} characters): save it to a file instead")

    def leave(self) -> None:
        """Refuse to end a session, which is the editor's to close.

        Raises:
            UsageError: always.
        """
        raise UsageError("close the session in the editor")

    async def _revise(self, plan: LoadedPlan, change: str) -> None:
        propose(self, plan.plan.goal, plan, change)

    async def _accept(self, draft: PlanDraft) -> PlanVerdict:
        """Show the last version, and take a yes, a no, or that it is to be changed, as the next prompt will say."""
        self._open_plan = None
        loaded = draft.loaded
        lines = [f"  would run in {one.step_id}: {one.command}" for one in model_commands(loaded.plan)]
        notes = [f"note: {note}" for note in draft.notes]
        shown = [one_line(line, LINE_LENGTH) for line in (*lines, *notes)]
        self._session.say("\n".join([plan_text(loaded.plan), *shown]), is_code=True)
        goal = one_line(draft.goal, LINE_LENGTH)
        chosen = await self._person.choose(f"Run this plan: {goal}", "", PLAN_ANSWERS, "Drop it")
        if chosen == CHANGE:
            self._open_plan = loaded
            self.say("Describe the change in your next prompt.")
            return PlanVerdict(VerdictKind.LATER)
        return PlanVerdict(VerdictKind.RUN if chosen == RUN else VerdictKind.DROP)

    def _audience(self) -> Audience:
        """Return the person as the audience of one run of a plan."""
        person = self._person
        return Audience(listeners=[self._session.channel], approver=person, user_input=person, decide=self._decide)

    async def _decide(self, decision: PlanDecisionEvent) -> Sequence[str] | None:
        """Return the option that the person picks; None: not now."""
        labels = decision.labels or decision.options
        options = dict(zip(decision.options, labels, strict=False))
        told = "\n".join(decision.descriptions)
        chosen = await self._person.choose(decision.question, told, options, "Not now")
        return [chosen] if chosen else None

    def _ended(self, run: PlanRun) -> None:
        """Say how a run ended."""
        self._session.say(plain(summary_text(run)), is_code=True)


def _offered(command: SlashCommand) -> schema.AvailableCommand:
    """Return a command as an editor offers it: its name without the slash, and the arguments it takes."""
    hint = schema.UnstructuredCommandInput(hint=command.usage)
    given = schema.AvailableCommandInput(hint) if command.usage else None
    return schema.AvailableCommand(name=command.name, description=command.about, input=given)


async def _refuse(talk: object, typed: Typed) -> None:  # noqa: ARG001  as every handler is called
    """Say that the editor has a way of its own."""
    raise UsageError(f"/{typed.name} is the editor's: it has sessions and a clipboard of its own")
