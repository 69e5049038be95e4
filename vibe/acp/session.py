"""EditorSession: an editor's conversation, with its settings, the current prompt, slash commands and plans."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from types import MappingProxyType
from typing import Literal

from acp import Client, RequestError, schema
from acp.helpers import update_available_commands, update_current_mode
from anyio import CancelScope, Event as Signal, to_thread
from anyio.abc import TaskGroup
from msgspec import Struct, convert, field

from ipc.events import ConversationConfiguredEvent, Event, PlanDecisionEvent, ToolServerEvent
from planner.plan.loader import LoadedPlan
from vibe.acp.content import ContentBlock, GivenPrompt, prompt_of
from vibe.acp.editor import EditorFiles, EditorTerminals
from vibe.acp.history import replayed
from vibe.acp.person import EditorPerson
from vibe.acp.transport import INTERNAL_ERROR, INVALID_PARAMS, EditorAbilities
from vibe.acp.updates import SessionChannel, as_code, message_chunk
from vibe.app.conversation.conversation import Conversation
from vibe.app.conversation.opening import AgentChange, Opening, PromptResult, Seat
from vibe.app.conversation.runtime import Runtime
from vibe.app.plan.command_consent import model_commands
from vibe.app.plan.dispatch import Audience
from vibe.app.plan.drafting import PlanDraft
from vibe.app.plan.run import PlanRun
from vibe.core.agents.models import AgentProfile, AgentType
from vibe.core.config.models import Thinking
from vibe.core.llm.errors import ContextTooLongError, ModelKeyError, ModelOverloadedError
from vibe.core.messages import Image, Outcome
from vibe.core.tools.permissions import ApprovalMode
from vibe.front.plan_graph import plan_text
from vibe.front.plan_summary import summary_text
from vibe.front.slash.command import SIGNS, SlashCommand
from vibe.front.slash.held_talk import HeldTalk
from vibe.front.slash.plan_proposal import propose
from vibe.front.slash.plan_talk import PlanTalk, PlanVerdict, VerdictKind
from vibe.front.slash.table import SlashTable
from vibe.front.trust_question import ask_for_trust
from vibe.system.errors import MissingKeyError, UsageError
from vibe.system.plain_text import one_line, plain
from vibe.system.racing import bare_task_group

Category = Literal["mode", "model", "thought_level"]
MODE, MODEL, THINKING, APPROVALS = "mode", "model", "thinking", "approvals"
APPROVAL_LABELS = {
    ApprovalMode.ASK: "Ask about what no rule allows",
    ApprovalMode.EDITS: "Edit files without asking",
    ApprovalMode.ALL: "Ask about nothing",
}


def modes_of(conversation: Conversation) -> schema.SessionModeState:
    """Return the modes, which are the agents that a person can talk to."""
    modes = [
        schema.SessionMode(id=one.name, name=one.display_name, description=one.description)
        for one in _profiles(conversation)
    ]
    return schema.SessionModeState(current_mode_id=conversation.setup.profile.name, available_modes=modes)


def options_of(conversation: Conversation) -> list[schema.SessionConfigOptionSelect]:
    """Return all settings with their values."""
    setup = conversation.setup
    agents = [(one.name, one.display_name, one.description) for one in _profiles(conversation)]
    models = [(one.key, one.key, f"{one.name} by {one.provider}") for one in setup.engine.config.models]
    if setup.model.key not in {key for key, _, _ in models}:
        models.append((setup.model.key, setup.model.key, ""))
    levels = [(level.value, level.value.capitalize(), "") for level in Thinking]
    approvals = [(mode.value, words, "") for mode, words in APPROVAL_LABELS.items()]
    return [
        _select(MODE, "Mode", setup.profile.name, agents, "mode"),
        _select(MODEL, "Model", setup.model.key, models, "model"),
        _select(THINKING, "Thinking", setup.model.thinking.value, levels, "thought_level"),
        _select(APPROVALS, "Approvals", conversation.approvals.mode.value, approvals),
    ]


def change_of(conversation: Conversation, option: str, value: object) -> AgentChange:
    """Return the change of the agent that results from a new value of a setting.

    Raises:
        UsageError: there is no such setting, or it can't have this value.
    """
    known = {one.id: one for one in options_of(conversation)}
    if option not in known:
        raise UsageError(f"there is no setting {option[:80]!r}: it is one of {', '.join(known)}")
    values = [one.value for one in known[option].options if isinstance(one, schema.SessionConfigSelectOption)]
    if not isinstance(value, str) or value not in values:
        raise UsageError(f"{option} can't be {str(value)[:80]!r}: it is one of {', '.join(values)}")
    return convert({"agent" if option == MODE else option: value}, AgentChange)


def _profiles(conversation: Conversation) -> list[AgentProfile]:
    profiles = conversation.setup.engine.agents.profiles.values()
    return [profile for profile in profiles if profile.agent_type is not AgentType.SUBAGENT]


def _select(
    option: str, name: str, value: str, values: Iterable[tuple[str, str, str]], category: Category | None = None
) -> schema.SessionConfigOptionSelect:
    options = [
        schema.SessionConfigSelectOption(value=one, name=shown, description=about or None)
        for one, shown, about in values
    ]
    return schema.SessionConfigOptionSelect(
        type="select", id=option, name=name, current_value=value, options=options, category=category
    )


LINE_LENGTH = 400
"""The most characters of a line about a plan."""
RUN, CHANGE = "run", "change"
PLAN_ANSWERS = MappingProxyType({RUN: "Run it", CHANGE: "Change it: I'll describe how"})
EDITORS_OWN = frozenset({"copy", "exit", "resume"})
"""Slash commands that are not offered, because editors have their own ways."""
AUTH_REQUIRED = -32000
CODES = MappingProxyType({
    (MissingKeyError, ModelKeyError): AUTH_REQUIRED,
    UsageError: INVALID_PARAMS,
    ContextTooLongError: -32003,
    ModelOverloadedError: -32004,
})
"""The protocol's codes for our errors. All others are internal ones."""
BUSY = "the last prompt of this session is not answered yet: wait for its end, or cancel it"
"""The answer to a prompt that comes while another one is being answered."""


class EditorTurn(Struct):
    """One prompt of an editor, from its arrival to its answer."""

    scope: CancelScope = field(default_factory=CancelScope)
    cancels: int = 0
    """The number of times that the editor cancelled it."""
    is_command: bool = False
    """A command carries it out, and no agent will."""
    result: PromptResult | None = None
    ended: Signal = field(default_factory=Signal)


class EditorSession(HeldTalk):
    """A session that an editor knows by its channel's unchanging id. ``open`` opens it.

    It is also the ``Talk`` of its slash commands: whatever a command begins belongs to the turn and ends with it.
    ``person`` is at the editor, which supports the abilities in ``can``.
    """

    def __init__(
        self, runtime: Runtime, opening: Opening, client: Client, can: EditorAbilities, tasks: TaskGroup
    ) -> None:
        self.channel = SessionChannel(client, opening.workdir, self.cancel)
        terminals = EditorTerminals(self.channel, tasks)
        self.person = EditorPerson(self.channel, terminals.approve, has_forms=can.forms)
        seat = Seat(
            listeners=[self.channel, self],
            approver=self.person,
            user_input=self.person,
            files=EditorFiles(self.channel, can) if can.reads or can.writes else None,
            commands=terminals if can.terminals else None,
        )
        plans = PlanTalk(accept=self._accept, audience=self._audience, ended=self._ended)
        super().__init__(runtime, opening, seat, plans, SlashTable())
        self._beside = tasks
        self._sending = CancelScope()
        self._turn: EditorTurn | None = None
        self._title = ""
        self._asks_for_trust = not opening.trust
        self._offered: list[schema.AvailableCommand] | None = None
        self._open_plan: LoadedPlan | None = None  # The next prompt says how to change it.

    async def open(self, session_id: str = "") -> None:
        """Open the conversation. A new one gives the session its id. Updates are sent from now on.

        Raises:
            UsageError, EnvironmentFailure, ipc.errors.IpcError: as ``Runtime.open_conversation``.
        """
        self.conversation = await self.runtime.open_conversation(self.opening, self.seat)
        self.channel.session_id = session_id or self.conversation.conversation_id
        self._beside.start_soon(self._send_updates)
        self._beside.start_soon(self._offer_all)

    async def _offer_all(self) -> None:
        """Offer the commands and, once the MCP servers are ready, those for their prompts."""
        await self.refresh()
        await self.conversation.servers.settled()
        await self.refresh()

    async def refresh(self) -> None:
        """Send the editor the list of slash commands if it has changed. Reads files."""
        await super().refresh()
        offered = [_offered(one) for one in self.commands.values() if one.name not in EDITORS_OWN]
        if offered != self._offered:
            self._offered = offered
            self.channel.put(update_available_commands(offered))

    async def prompt(self, blocks: Sequence[ContentBlock]) -> schema.PromptResponse:
        """Answer a prompt.

        Raises:
            UsageError: another prompt is being answered, and this one is not text to steer the agent with; or it can't
                be answered as it is, and nothing was said.
            RequestError: the work failed.
        """
        while (turn := self._turn) is not None:
            cancels = turn.cancels  # Some editors send the next prompt right after the cancellation.
            is_steering = not cancels and await self._steer(turn, blocks)
            await turn.ended.wait()
            if is_steering:
                await self.channel.flush()
                return _prompt_response(turn)
            if turn.cancels > cancels:
                return schema.PromptResponse(stop_reason="cancelled")
        turn = self._turn = EditorTurn()
        try:
            with turn.scope:
                given = await to_thread.run_sync(prompt_of, blocks, self.opening.workdir)
                await self._carry_out(turn, given)
        finally:
            self._turn = None
            turn.ended.set()
            self.channel.put(*self.channel.updates.end_calls())  # No call may look as if it still ran.
        await self.channel.flush()
        return _prompt_response(turn)

    async def _steer(self, turn: EditorTurn, blocks: Sequence[ContentBlock]) -> bool:
        """Steer the agent at work with a prompt, which then ends with the turn under way.

        Return False if the agent has not begun or is about to finish, so that the prompt has to wait for the end.
        """
        given = await to_thread.run_sync(prompt_of, blocks, self.opening.workdir)
        is_text = not given.images and not given.typed.startswith("/")
        is_steering = is_text and self.conversation.steer(given.text)
        if not (is_steering or turn.ended.is_set() or (is_text and not turn.is_command)):
            raise UsageError(BUSY)
        return is_steering

    async def _carry_out(self, turn: EditorTurn, given: GivenPrompt) -> None:
        """Carry out a prompt until everything it begins has ended. Errors of commands are shown.

        A prompt that is neither a command nor a change to the proposed plan is answered by the agent.

        Raises:
            UsageError: it can't be answered as it is.
        """
        if self._asks_for_trust:  # Nothing can be asked before the editor knows the session.
            self._asks_for_trust = False
            await self.guarded(self._ask_for_trust)
        called = self.commands.called(given.typed)
        async with bare_task_group() as self._tasks:
            turn.is_command = called is not None or self._open_plan is not None
            if called is not None:
                command, typed = called
                await self.guarded(command.handler, self, typed)
            elif self._open_plan is not None and not given.typed.startswith("/"):
                await self.guarded(self._revise, self._open_plan, given.typed)
            else:
                try:
                    await self._answer(given.text, given.images)
                finally:
                    self._open_plan = None  # The next prompt goes to the agent that proposed it.

    async def _ask_for_trust(self) -> None:
        """Ask whether the project's own settings and instructions may be loaded, and if so load them."""
        ask = partial(self.person, lasts=True)
        if await ask_for_trust(self.runtime.host, self.opening.workdir, ask, self.say):
            setup = self.conversation.setup
            await self.conversation.configure(AgentChange(agent=setup.profile.name, model=setup.opening.model))
            await self.refresh()

    async def _answer(self, prompt: str, images: tuple[Image, ...] = ()) -> None:
        """Have the agent answer in the current turn.

        Raises:
            UsageError: it can't be answered as it is; nothing was said.
        """
        result = await self.sent(prompt, images=images)
        if self._turn is not None:
            self._turn.result = result
            if self._turn.cancels:
                await self.plans.stop()
        self._update_title()

    def cancel(self) -> None:
        """Cancel the prompt that is being answered, if any."""
        if self._turn is None:
            return
        self._turn.cancels += 1
        if not self.conversation.interrupt():
            self._beside.start_soon(self._end, self._turn)

    def check_idle(self) -> None:
        """Check that no prompt is being answered.

        Raises:
            UsageError: one is.
        """
        if self._turn is not None:
            raise UsageError(BUSY)

    def replay(self) -> None:
        """Send the history of the conversation as updates."""
        self.channel.put(*replayed(self.conversation.messages, self.opening.workdir))

    def publish(self, event: Event) -> None:
        """Send the editor settings and commands that have changed, here or elsewhere."""
        if isinstance(event, ToolServerEvent):
            self._beside.start_soon(self.refresh)
        if isinstance(event, ConversationConfiguredEvent):
            self.channel.put(update_current_mode(event.agent))
            options = options_of(self.conversation)
            self.channel.put(
                schema.ConfigOptionUpdate(session_update="config_option_update", config_options=[*options])
            )

    async def close(self) -> None:
        """End the session: interrupt the work and save the conversation."""
        self.cancel()
        await self.conversation.aclose()
        self._sending.cancel()

    def say(self, text: str, status: str = "note") -> None:
        """Show text of our own."""
        self.channel.put(message_chunk(f"{SIGNS[status]}{plain(text)}\n"))

    def _show(self, text: str) -> None:
        """Show text of our own in a code block."""
        self.channel.put(message_chunk(f"{as_code(text)}\n"))

    async def reopen(self, opening: Opening) -> None:
        """Refuse to continue another conversation, because an editor's session is a single one.

        Raises:
            UsageError: always.
        """
        raise UsageError(f"that would start another session in {opening.workdir}: start or load one in the editor")

    async def send(self, prompt: str) -> None:
        """Have the agent answer a prompt in this turn."""
        self.begin(self._answer, prompt)

    def copy(self, text: str) -> None:
        """Refuse to use a clipboard, because the editor has its own.

        Raises:
            UsageError: always.
        """
        raise UsageError(f"the clipboard is the editor's: select the {len(text)} characters there")

    async def edit(self, text: str, name: str) -> str:
        """Refuse to edit a text in another editor.

        Raises:
            UsageError: always.
        """
        raise UsageError(f"no other editor for {name} ({len(text)} characters): save it to a file instead")

    def leave(self) -> None:
        """Refuse to end the session, because that is up to the editor.

        Raises:
            UsageError: always.
        """
        raise UsageError("close the session in the editor")

    async def _revise(self, plan: LoadedPlan, change: str) -> None:
        propose(self, plan.plan.goal, plan, change)

    async def _accept(self, draft: PlanDraft) -> PlanVerdict:
        """Show the last version, and ask whether to run it, drop it, or change it as the next prompt will say."""
        self._open_plan = None
        loaded = draft.loaded
        lines = [f"  would run in {one.step_id}: {one.command}" for one in model_commands(loaded.plan)]
        notes = [f"note: {note}" for note in draft.notes]
        shown = [one_line(line, LINE_LENGTH) for line in (*lines, *notes)]
        self._show("\n".join([plan_text(loaded.plan), *shown]))
        goal = one_line(draft.goal, LINE_LENGTH)
        chosen = await self.person.choose(f"Run this plan: {goal}", "", PLAN_ANSWERS, "Drop it")
        if chosen == CHANGE:
            self._open_plan = loaded
            self.say("Describe the change in your next prompt.")
            return PlanVerdict(VerdictKind.LATER)
        return PlanVerdict(VerdictKind.RUN if chosen == RUN else VerdictKind.DROP)

    def _audience(self) -> Audience:
        """Return the person as the audience of one run of a plan."""
        return Audience(listeners=[self.channel], approver=self.person, user_input=self.person, decide=self._decide)

    async def _decide(self, decision: PlanDecisionEvent) -> Sequence[str] | None:
        """Return the option that the person picks, or None if they pick none for now."""
        labels = decision.labels or decision.options
        options = dict(zip(decision.options, labels, strict=False))
        descriptions = "\n".join(decision.descriptions)
        chosen = await self.person.choose(decision.question, descriptions, options, "Not now")
        return [chosen] if chosen else None

    def _ended(self, run: PlanRun) -> None:
        """Show how a run ended."""
        self._show(plain(summary_text(run)))

    async def _end(self, turn: EditorTurn) -> None:
        await self.plans.stop()
        turn.scope.cancel()

    def _update_title(self) -> None:
        title = self.conversation.session.title
        if title != self._title:
            self._title = title
            self.channel.put(schema.SessionInfoUpdate(session_update="session_info_update", title=title))

    async def _send_updates(self) -> None:
        with self._sending:
            await self.channel.run()


def _prompt_response(turn: EditorTurn) -> schema.PromptResponse:
    """Return the response that ends a turn.

    Raises:
        RequestError: the work failed.
    """
    result = turn.result
    if result is None:
        return schema.PromptResponse(stop_reason="cancelled" if turn.cancels else "end_turn")
    used = result.usage
    usage = schema.Usage(
        total_tokens=used.total_tokens,
        input_tokens=used.prompt_tokens,
        output_tokens=used.completion_tokens,
        cached_read_tokens=used.cached_tokens,
    )
    acted = result.acted
    if turn.cancels or acted.outcome is Outcome.INTERRUPTED:
        return schema.PromptResponse(stop_reason="cancelled", usage=usage)
    if acted.outcome is Outcome.COMPLETED:
        return schema.PromptResponse(stop_reason="end_turn", usage=usage)
    if acted.outcome is Outcome.LIMIT and acted.reason == "turns":
        return schema.PromptResponse(stop_reason="max_turn_requests", usage=usage)
    if acted.outcome is Outcome.LIMIT and acted.reason == "tokens":
        return schema.PromptResponse(stop_reason="max_tokens", usage=usage)
    why = acted.detail or acted.reason or "no reason given"
    raise RequestError(code_of(acted.error), f"{acted.outcome.value}: {why}", {"reason": acted.reason})


def code_of(error: BaseException | None) -> int:
    """Return the protocol's code for an error."""
    return next((code for kind, code in CODES.items() if isinstance(error, kind)), INTERNAL_ERROR)


def _offered(command: SlashCommand) -> schema.AvailableCommand:
    """Return a command in the form an editor offers it: its name without the slash, and the arguments it takes."""
    hint = schema.UnstructuredCommandInput(hint=command.usage)
    given = schema.AvailableCommandInput(hint) if command.usage else None
    return schema.AvailableCommand(name=command.name, description=command.about, input=given)
