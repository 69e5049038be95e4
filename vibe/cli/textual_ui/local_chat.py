"""LocalChat: the conversation of the screen, held by the engine in this process; loaded behind the first frame."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

from anyio import Event, Lock, sleep, to_thread
from msgspec.structs import replace

from ipc.commands import Steer
from ipc.errors import IpcError
from ipc.events import AnswerEvent, PlanDecisionEvent, PlanProposedEvent
from ipc.events import Event as BusEvent
from planner.plan.status import PlanStatus
from vibe.app.conversation.conversation import Conversation
from vibe.app.conversation.opening import AgentChange, Opening, PromptLimits, Seat
from vibe.app.conversation.runtime import Runtime
from vibe.app.conversation.session import before_summary, begins_with_summary
from vibe.app.engine.host import Host
from vibe.app.inspect.updates import look_for_update
from vibe.app.plan.dispatch import Audience
from vibe.app.plan.drafting import PlanDraft
from vibe.app.plan.looking_back import plans_of_session
from vibe.app.plan.run import PlanRun
from vibe.cli.textual_ui.chat_screen import ChatScreen
from vibe.cli.textual_ui.controllers.app_controller import ChatAbout
from vibe.cli.textual_ui.presenters.chat_presenter import SavedPart
from vibe.cli.textual_ui.screen_commands import is_due, picked, screen_commands, set_up
from vibe.core.config.paths import CONFIG_FILE, VibePaths
from vibe.core.messages import Message
from vibe.core.skills.command_files import NoSuchCommandError
from vibe.core.tools.files.images import images_in
from vibe.core.tools.permissions import ApprovalMode
from vibe.front.event_text import one_line
from vibe.front.plan_summary import below_card
from vibe.front.request_text import answers_of
from vibe.front.slash.held_talk import HeldTalk
from vibe.front.slash.plan_talk import PlanTalk, PlanVerdict, VerdictKind
from vibe.front.slash.table import WORDS, SlashTable
from vibe.front.start_facts import agent_facts, left_line, priced_facts, project_facts
from vibe.front.trust_question import ask_for_trust
from vibe.system.errors import ConfigError, UsageError, VibeError

EDITS = "accept-edits"
MODES = ("default", EDITS, "plan")
"""The agents that one goes through by a key; others are chosen by their names."""
STEERED_LENGTH = 200
TOLD = "will be read before the next step"
RETRY_SECONDS = 1.0
"""Between two attempts to read settings that are wrong."""


class LocalTalk(HeldTalk):
    """One conversation after another, until the person leaves; the ``Talk`` that slash commands see.

    It has plans proposed and run on the stage, as a sink of events that hears of proposals and decisions.
    ``stage`` is the screen, ``commands`` are those of the conversation, ``limits`` those of each prompt.
    """

    ERROR_SIGN = ""

    def __init__(self, runtime: Runtime, opening: Opening, limits: PromptLimits, stage: ChatScreen) -> None:
        plans = PlanTalk(
            accept=self._accept,
            audience=self._audience,
            ended=self._plan_ended,
            begun=stage.plannings.begin,
            shows_planning=True,
        )
        seat = Seat(
            listeners=[stage.store, self],
            approver=stage.requests,
            user_input=stage.requests.user_input,
            prompted=stage.hear,
        )
        super().__init__(runtime, opening, seat, plans, SlashTable(screen_commands(stage)))
        self._limits = limits
        self._stage = stage
        self._leaving = Event()
        self._proposed: PlanProposedEvent | None = None

    def publish(self, event: BusEvent) -> None:
        """Hear of a proposal, and of answers that a plan was given."""
        if isinstance(event, PlanProposedEvent):
            self._proposed = event
        elif isinstance(event, AnswerEvent | PlanDecisionEvent) and event.plan_id:
            self._stage.presenter.tell_answers(answers_of(event), event.by, event.ts)

    async def _accept(self, draft: PlanDraft) -> PlanVerdict:
        """Show the last version and return the person's answer; cancelling takes it away."""
        if self._proposed is None:
            raise AssertionError("a draft with a version was announced")
        document = draft.loaded.source_bytes.decode("utf-8", "replace")
        kind, text = await self._stage.asked_about(self._proposed, document)
        return PlanVerdict(VerdictKind(kind), text)

    def _audience(self) -> Audience:
        """Return the person as the audience of one run of a plan."""
        asks = self._stage.requests
        return Audience(
            listeners=[self._stage.store, self], approver=asks, user_input=asks.user_input, decide=asks.decider
        )

    def _plan_ended(self, run: PlanRun) -> None:
        """Say what is to be done after a run of a plan."""
        lines = below_card(run)
        if lines:
            self.say("\n".join(lines).strip())
        if run.status is PlanStatus.PAUSED and not self._leaving.is_set():
            start = self._stage.start
            start.begin(replace(start.facts, is_new=False, with_cards=[str(run.record.plan_id)]))
            self.begin(self.tell_of_seat)

    async def hold(self) -> None:
        """Open the conversation and hold it until ``leave``; what is at work then is interrupted and written down.

        Raises:
            UsageError, EnvironmentFailure, ipc.errors.IpcError: it could not be opened, or not be closed.
        """
        self._conversation = await self._opened()
        await self.stay(self._on_stage)

    async def _on_stage(self) -> None:
        """Have the conversation on the stage until the person leaves."""
        await self._begin_on_stage(self.opening.prompt)
        if self.conversation.setup.missing_key is not None:
            self._stage.say(f"{self.conversation.setup.missing_key}; here: /setup", "warning")
        self.begin(self.refresh)
        self.begin(self.tell_of_seat)
        self.begin(look_for_update, self.runtime.host, self.conversation.setup.engine.config.updates, self.say)
        await self._leaving.wait()
        if self.plans.session is not None:
            self.say("leaving once the plan is paused")

    async def _begin_on_stage(self, prompt: str) -> None:
        """Have the stage show the conversation, with the plans of one that is resumed."""
        host, held = self.runtime.host, self.conversation
        read = partial(plans_of_session, host, held.session_id, is_summarised=begins_with_summary(held.messages))
        plans = await to_thread.run_sync(read) if held.messages else []
        await held.configure(AgentChange())  # its first events do not say what it does unasked
        self._stage.opened(LocalChat(self, self._stage, self._limits), prompt, plans)

    async def tell_of_seat(self) -> None:
        """Have the start screen tell all there is of the seat; prices last, whose list takes long to load."""
        start = self._stage.start
        home = self.runtime.host.home
        if not start.is_begun:
            line = await to_thread.run_sync(left_line, home, self.opening.workdir)
            if line:
                self.say(line)
            return
        facts = await to_thread.run_sync(agent_facts, self.conversation)
        project = await to_thread.run_sync(project_facts, self.conversation, home)
        start.tell(replace(start.facts, agent=facts, project=project))
        if start.is_open and facts.model.prices is None and facts.model.has_key:
            facts = await to_thread.run_sync(priced_facts, self.conversation, facts, abandon_on_cancel=True)
            start.tell(replace(start.facts, agent=facts))

    async def _opened(self) -> Conversation:
        """Open the conversation; a settings file that is wrong is waited for until it is corrected."""
        told = ""
        while True:
            try:
                return await self.runtime.open_conversation(self.opening, self.seat)
            except ConfigError as error:
                if not all(CONFIG_FILE in problem.where for problem in error.problems):
                    raise
                if f"{error}" != told:
                    told = f"{error}"
                    self._stage.say(f"{told}\nvibe continues once this is corrected and saved; Ctrl+D quits", "error")
            await sleep(RETRY_SECONDS)

    def leave(self) -> None:
        """End the conversation, once the person has said what becomes of a plan that runs."""
        self._stage.leave()

    def end(self) -> None:
        """End the conversation, from wherever this is called."""
        self._leaving.set()

    def say(self, text: str) -> None:
        """Show a sentence of ours."""
        self._stage.say(text)

    def show_diff(self, title: str, fact: str, diff: str) -> None:
        """Show what changed in files as that of a call is shown."""
        self._stage.presenter.show_diff(title, fact, diff)

    @property
    def asked_at(self) -> Mapping[int, float]:
        """The times of prompts, as far as the screen saw them."""
        main = self._stage.store.view.main
        entries = () if main is None else main.entries.values()
        return {one.message_index: one.ts for one in entries if one.kind == "user" and one.message_index is not None}

    def warn(self, warning: str) -> None:
        """Show what is wrong with something that the conversation brings."""
        self._stage.say(warning, "warning")

    async def send(self, prompt: str) -> None:
        """Have the agent answer a prompt, now or once it has time."""
        self._stage.hear(prompt, is_line=False)  # a command that stands for a prompt is sent by its name

    def suggest(self, prompt: str) -> None:
        """Have a prompt in the input, to be changed and sent, if that is empty."""
        self._stage.give_back(prompt)

    def copy(self, text: str) -> None:
        """Ask the terminal to put text on the clipboard, which works over ssh, too."""
        self._stage.copy(text)

    async def edit(self, text: str, name: str) -> str:
        """Have the person change a text in their editor, as a file of that name, and return it.

        Raises:
            EditorError: there is no editor, or it failed.
        """
        return self._stage.edit(text, name)

    async def reopen(self, opening: Opening) -> None:
        """Close the conversation and go on with another.

        Raises:
            UsageError, EnvironmentFailure, ipc.errors.IpcError: the other could not be opened: this one goes on.
        """
        await super().reopen(opening)
        await self._begin_on_stage("")
        self.begin(self.refresh)
        if not self.conversation.messages:
            self.begin(self.tell_of_seat)


class LocalChat:
    """The ``Chat`` that the screen has of a talk."""

    def __init__(self, talk: LocalTalk, stage: ChatScreen, limits: PromptLimits) -> None:
        self._talk = talk
        self._stage = stage
        self._limits = limits
        self._changing = Lock()

    @property
    def about(self) -> ChatAbout:
        """The conversation as it is now."""
        talk = self._talk
        return ChatAbout(
            session_id=talk.conversation.session_id,
            folder=talk.opening.workdir,
            saved=_saved(VibePaths(talk.runtime.host.home), talk.conversation.session_id, talk.conversation.messages),
            commands=[(one.name, one.usage, one.about) for one in talk.commands.values()],
        )

    @property
    def is_busy(self) -> bool:
        """True while a prompt is being answered."""
        return self._conversation.is_busy

    @property
    def _conversation(self) -> Conversation:
        return self._talk.conversation

    def send(self, prompt: str, images: tuple[Path, ...] = ()) -> None:
        """Have a prompt answered, with the images in these files."""
        self._talk.begin(self._send, prompt, images)

    def steer(self, text: str) -> bool:
        """Say something to the agent at work, or else to the model that plans; False: neither is at work."""
        talk = self._talk
        is_heard = self._conversation.steer(text) or talk.plans.steer(text)
        if is_heard:
            self._stage.say(f"will be read before the next step: {one_line(text, STEERED_LENGTH)}")
        return is_heard

    def interrupt(self) -> bool:
        """Stop the agent, or else the model that plans, at once; False: neither is at work."""
        return self._conversation.interrupt() or self._talk.plans.interrupt()

    def send_back(self) -> None:
        """Have the command that the agent waits for run on in the background."""
        if not self._conversation.background.send_back():
            self._stage.say("no command of the agent is running")

    def shell(self, command: str, *, tell_model: bool) -> None:
        """Run the person's own command line."""
        self._talk.begin(self._shell, command, tell_model)

    def command(self, line: str) -> None:
        """Carry a slash command out; one that is refused comes back into the input."""
        self._talk.begin(self._command, line)

    def next_mode(self) -> None:
        """Go on in the next mode, from the next prompt on; what was approved for all calls is asked about again."""
        self._talk.begin(self._next_mode)

    def tell_agent(self, agent_id: str, text: str) -> None:
        """Say something to one of the agents at work, a step's or the person's."""
        self._talk.begin(self._tell_agent, agent_id, text)

    async def _tell_agent(self, agent_id: str, text: str) -> None:
        session = self._talk.plans.session
        step_id = None if session is None else session.steering.step_of(agent_id)
        if session is not None and step_id is not None:
            session.control.submit(Steer(step_id=step_id, text=text), lambda problem: self._talk.say(problem or TOLD))
            return
        main = self._stage.store.view.main
        heard = main is not None and main.id == agent_id and self._conversation.steer(text)
        self._talk.say(TOLD if heard else "not sent: this agent has finished")

    async def _next_mode(self) -> None:
        async with self._changing:
            conversation = self._conversation
            setup = conversation.setup
            change = mode_after(setup.profile.name, conversation.approvals.mode, setup.engine.agents.profiles)
            await conversation.configure(change)
        start = self._stage.start
        if start.is_open:
            await self._talk.tell_of_seat()

    def leave(self) -> None:
        """End it."""
        self._talk.end()

    async def _send(self, prompt: str, files: tuple[Path, ...] = ()) -> None:
        try:
            images = await to_thread.run_sync(images_in, files)
            await self._conversation.send(prompt, images=images, limits=self._limits)
        except NoSuchCommandError as error:
            self._stage.give_back(prompt, f"{error.among(self._talk.commands)}")
        except VibeError as error:
            self._stage.give_back(prompt, f"{error}")
        finally:
            self._rest()

    async def _shell(self, command: str, tell_model: bool) -> None:  # noqa: FBT001  handed on as it is
        try:
            await self._conversation.shell(command, tell_model=tell_model, in_colour=True)
        except VibeError as error:
            self._stage.give_back(f"{'!' if tell_model else '!!'}{command}", f"{error}")
        finally:
            self._rest()

    def _rest(self) -> None:
        plans = self._talk.plans
        self._stage.rested(is_planning=plans.is_taken)

    async def _command(self, line: str) -> None:
        called = self._talk.commands.called(line)
        if called is None:
            await self._send(line)  # the conversation knows what to say of a word that no command has
            return
        command, typed = called
        try:
            picker = await command.picker(self._talk) if command.picker is not None and not typed.rest else None
            if picker is not None and picker.rows(picker.mode):
                chosen = await picked(self._stage, picker)
                if chosen:
                    await self._command(chosen)
                return
            if command.name in WORDS:
                self._stage.say(line, "typed")
            await command.handler(self._talk, typed)
        except (VibeError, IpcError) as error:
            self._stage.give_back(line, f"{error}")


def mode_after(agent: str, approvals: ApprovalMode, known: Collection[str]) -> AgentChange:
    """Return the change to the mode after that of an agent; to the first of the ``known`` ones from what is none.

    Raises:
        UsageError: none is known.
    """
    modes = [name for name in MODES if name in known]
    if not modes:
        raise UsageError("no mode to go on to: enabled_agents and disabled_agents in the settings leave none")
    if approvals is ApprovalMode.ALL:
        agent = ""
    elif approvals is ApprovalMode.EDITS and agent == MODES[0]:
        agent = EDITS
    at = modes.index(agent) if agent in modes else -1
    return AgentChange(agent=modes[(at + 1) % len(modes)], approvals=ApprovalMode.ASK)


def _saved(paths: VibePaths, session_id: str, messages: Sequence[Message]) -> SavedPart:
    """The messages of a session as far as they are saved, and the way to those before a summary."""

    async def read_earlier() -> SavedPart:
        earlier = await to_thread.run_sync(before_summary, paths, session_id)
        return SavedPart(()) if earlier is None else _saved(paths, earlier.session_id, earlier.messages)

    return SavedPart(tuple(messages), read_earlier if begins_with_summary(messages) else None)


async def hold_chat(
    host: Host, talk: tuple[Opening, PromptLimits], stage: ChatScreen, *, sets_up: bool = False
) -> None:
    """Hold the conversation of a screen until it is left; a person who has no key yet, or wants to, sets vibe up first.

    Raises:
        UsageError, EnvironmentFailure, ipc.errors.IpcError: as ``LocalTalk.hold``.
    """
    opening, limits = talk
    if sets_up or (opening.model is None and await to_thread.run_sync(is_due, host, opening.workdir)):
        await set_up(stage, host, opening.workdir)
    if not opening.trust:
        await ask_for_trust(host, opening.workdir, stage.requests.user_input, lambda text: stage.say(text, "error"))
    async with Runtime(host) as runtime:
        await LocalTalk(runtime, replace(opening, key_may_come_later=True), limits, stage).hold()
