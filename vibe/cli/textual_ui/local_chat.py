"""LocalChat: the screen's conversation, held by the engine in this process; loaded after the first frame."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from anyio import Event, Lock, sleep, to_thread
from msgspec.structs import replace

from ipc.commands import Steer
from ipc.errors import IpcError
from ipc.events import Event as BusEvent, PlanProposedEvent
from planner.plan.status import PlanStatus
from vibe.app.conversation.conversation import Conversation
from vibe.app.conversation.opening import AgentChange, Opening, PromptLimits, Seat
from vibe.app.conversation.runtime import Runtime
from vibe.app.conversation.session import before_summary, begins_with_summary
from vibe.app.engine.host import Host
from vibe.app.inspect.updates import look_for_update
from vibe.app.plan.dispatch import Audience
from vibe.app.plan.drafting import PlanDraft
from vibe.app.plan.looking_back import past_plan, plans_of_session
from vibe.app.plan.run import PlanRun
from vibe.cli.textual_ui.chat_screen import ChatScreen
from vibe.cli.textual_ui.controllers.app_controller import ChatAbout
from vibe.cli.textual_ui.presenters.chat_presenter import SavedPart
from vibe.cli.textual_ui.refresher import app_of
from vibe.cli.textual_ui.screen_commands import is_due, picked, screen_commands, set_up, tell_changes
from vibe.core.config.paths import CONFIG_FILE, VibePaths
from vibe.core.messages import Message, Outcome
from vibe.core.skills.command_files import NoSuchCommandError
from vibe.core.tools.files.images import images_in
from vibe.core.tools.permissions import ApprovalMode
from vibe.front.plan_summary import below_card
from vibe.front.slash.held_talk import HeldTalk
from vibe.front.slash.plan_talk import PlanTalk, PlanVerdict, VerdictKind
from vibe.front.slash.table import WORDS, SlashTable
from vibe.front.start_facts import agent_facts, left_line, priced_facts, project_facts
from vibe.front.trust_question import ask_for_trust
from vibe.system.errors import ConfigError, MissingKeyError, UsageError, VibeError
from vibe.system.plain_text import one_line

EDITS = "accept-edits"
MODES = ("default", EDITS, "plan")
"""The agents that Shift+Tab cycles through; others are chosen by name."""
TAKEN = "will be read before the next step"
RETRY_SECONDS = 1.0
"""The pause between two attempts to read settings that are wrong."""


class LocalTalk(HeldTalk):
    """Holds one conversation after another until the person leaves; the ``Talk`` that slash commands get.

    It shows proposed and running plans on the stage, and is an event sink to learn of proposals and decisions.
    ``stage`` is the screen, ``commands`` are those of the conversation, and ``limits`` apply to each prompt.
    """

    def __init__(self, runtime: Runtime, opening: Opening, limits: PromptLimits, stage: ChatScreen) -> None:
        plans = PlanTalk(
            accept=self._accept,
            audience=self._audience,
            ended=self._plan_ended,
            begun=stage.plannings.begin,
            resumes=self._look_back,
            shows_planning=True,
        )
        seat = Seat(
            listeners=[stage.store, self],
            approver=stage.requests,
            user_input=stage.requests.user_input,
            prompted=stage.submit,
        )
        super().__init__(runtime, opening, seat, plans, SlashTable(screen_commands(stage)))
        self._limits = limits
        self._stage = stage
        self._leaving = Event()
        self._proposed: PlanProposedEvent | None = None

    def publish(self, event: BusEvent) -> None:
        """Remember a proposed plan, and show the answers that a plan was given."""
        self._stage.presenter.tell_answers(event)
        if isinstance(event, PlanProposedEvent):
            self._proposed = event

    async def _accept(self, draft: PlanDraft) -> PlanVerdict:
        """Show the draft's last version and return the person's verdict; cancelling hides it."""
        if self._proposed is None:
            raise AssertionError("a draft with a version was announced")
        kind, text = await self._stage.ask_about_plan(self._proposed, draft.text)
        return PlanVerdict(VerdictKind(kind), text)

    def _audience(self) -> Audience:
        """Return the person as the audience of one run of a plan."""
        asks = self._stage.requests
        return Audience(
            listeners=[self._stage.store, self], approver=asks, user_input=asks.user_input, decide=asks.decider
        )

    async def _look_back(self, plan_id: str) -> None:
        """Read back a plan that this screen doesn't know, so that its card shows what was done before."""
        stage = self._stage
        plans = stage.store.view.plans
        with suppress(VibeError):  # its run says what is wrong with it
            if plan_id not in plans and (past := await to_thread.run_sync(past_plan, self.runtime.host, plan_id)):
                plans[plan_id] = past

    def _plan_ended(self, run: PlanRun) -> None:
        """Show what can be done after a run of a plan; if it was paused, offer that on the start screen."""
        lines = below_card(run)
        if lines:
            self.say("\n".join(lines).strip())
        if run.status is PlanStatus.PAUSED and not self._leaving.is_set():
            start = self._stage.start
            start.begin(replace(start.facts, is_new=False, with_cards=[str(run.record.plan_id)]))
            self.begin(self.show_facts)

    async def hold(self) -> None:
        """Open the conversation and hold it until ``leave``, which interrupts and saves what is at work.

        Raises:
            UsageError, EnvironmentFailure, ipc.errors.IpcError: it could not be opened or closed.
        """
        self.conversation = await self._opened()
        await self.stay(self._on_stage)

    async def _on_stage(self) -> None:
        """Keep the conversation on the stage until the person leaves."""
        await self._begin_on_stage(self.opening.prompt)
        if self.conversation.setup.missing_key is not None:
            self._stage.say(f"{self.conversation.setup.missing_key}; here: /setup", "warning")
        self.begin(self.refresh)
        self.begin(self.show_facts)
        self.begin(look_for_update, self.runtime.host, self.conversation.setup.engine.config.updates, self.say)
        await self._leaving.wait()
        if self.plans.session is not None:
            self.say("leaving once the plan is paused")

    async def _begin_on_stage(self, prompt: str) -> None:
        """Show the conversation on the stage; a resumed one with its plans."""
        host, held = self.runtime.host, self.conversation
        read = partial(plans_of_session, host, held.session_id, is_summarised=begins_with_summary(held.messages))
        plans = await to_thread.run_sync(read) if held.messages else []
        await held.configure(AgentChange())  # its first events don't say what it may do without asking
        self._stage.opened(LocalChat(self, self._stage, self._limits), prompt, plans)

    async def show_facts(self) -> None:
        """Give the start screen the facts of the agent and the project; prices come last, as they load slowly.

        If the start screen is gone, show what an earlier session left instead.
        """
        start = self._stage.start
        home = self.runtime.host.home
        if not start.is_begun:
            line = await to_thread.run_sync(left_line, home, self.opening.workdir)
            if line:
                self.say(line)
            return
        facts = await to_thread.run_sync(agent_facts, self.conversation)
        project = await to_thread.run_sync(project_facts, self.conversation, home)
        start.update(replace(start.facts, agent=facts, project=project))
        if start.is_open and facts.model.prices is None and facts.model.has_key:
            facts = await to_thread.run_sync(priced_facts, self.conversation, facts, abandon_on_cancel=True)
            start.update(replace(start.facts, agent=facts))

    async def _opened(self) -> Conversation:
        """Open the conversation; if the settings file has errors, wait until they are corrected."""
        shown = ""
        while True:
            try:
                return await self.runtime.open_conversation(self.opening, self.seat)
            except ConfigError as error:
                if not all(CONFIG_FILE in problem.where for problem in error.problems):
                    raise
                if f"{error}" != shown:
                    shown = f"{error}"
                    self._stage.say(f"{shown}\nvibe continues once this is corrected and saved; Ctrl+D quits", "error")
            await sleep(RETRY_SECONDS)

    def leave(self) -> None:
        """End the conversation, after asking what is to become of a running plan."""
        self._stage.leave()

    def end(self) -> None:
        """End the conversation at once; may be called from anywhere."""
        self._leaving.set()

    def say(self, text: str, status: str = "note") -> None:
        """Show a message in the chat."""
        self._stage.say(text, status)

    def show_diff(self, title: str, fact: str, diff: str) -> None:
        """Show a diff in the way the diff of a tool call is shown."""
        self._stage.presenter.show_diff(title, fact, diff)

    @property
    def asked_at(self) -> Mapping[int, float]:
        """The time of each prompt this screen saw, by the index of its message."""
        main = self._stage.store.view.main
        entries = () if main is None else main.entries.values()
        return {one.message_index: one.ts for one in entries if one.kind == "user" and one.message_index is not None}

    async def send(self, prompt: str) -> None:
        """Have the agent answer a prompt, now or once it is free."""
        self._stage.submit(prompt, is_line=False)  # a command that expands to a prompt is sent by its name

    def suggest(self, prompt: str) -> None:
        """Put a prompt into the input, to be edited and sent, if that is empty."""
        self._stage.give_back(prompt)

    def copy(self, text: str) -> None:
        """Ask the terminal to copy text to the clipboard, which also works over SSH."""
        app_of(self._stage).copy_to_clipboard(text)

    async def edit(self, text: str, name: str) -> str:
        """Open a text in the person's editor, as a file of the given name, and return the edited text.

        Raises:
            EnvironmentFailure: there is no editor, or it failed.
        """
        return self._stage.edit(text, name)

    async def reopen(self, opening: Opening) -> None:
        """Close the conversation and go on with another.

        Raises:
            UsageError, EnvironmentFailure, ipc.errors.IpcError: the other could not be opened, and this one goes on.
        """
        await super().reopen(opening)
        await self._begin_on_stage("")
        self.begin(self.refresh)
        if not self.conversation.messages:
            self.begin(self.show_facts)


class LocalChat:
    """The ``Chat`` through which the screen uses a ``LocalTalk``."""

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
        """Have the agent answer a prompt, with the images in these files."""
        self._talk.begin(self._send, prompt, images)

    def steer(self, text: str) -> bool:
        """Tell the agent at work something, or else the planner; return False if it is to be queued or sent.

        A text that the planner can't be told goes back into the prompt: the agent would take it for something to do.
        """
        plans = self._talk.plans
        was_taken = self._conversation.steer(text) or plans.steer(text)
        if plans.is_planning and not was_taken:
            self._stage.give_back(text, "not sent: it is too long for the planner, or the planner isn't reading now")
        elif was_taken or self.is_busy:
            what = TAKEN if was_taken else "queued, as the agent can't be told it now"
            self._stage.say(f"{what}: {one_line(text)}")
        return was_taken or plans.is_planning

    def interrupt(self) -> bool:
        """Stop the agent, or else the planner, at once; return False if neither is at work."""
        return self._conversation.interrupt() or self._talk.plans.interrupt()

    def send_back(self) -> None:
        """Move the command that the agent waits for to the background."""
        if not self._conversation.background.send_back():
            self._stage.say("no command of the agent is running")

    def shell(self, command: str, *, tell_model: bool) -> None:
        """Run a shell command of the person."""
        self._talk.begin(self._shell, command, tell_model)

    def command(self, line: str) -> None:
        """Carry out a slash command; one that is refused goes back into the prompt."""
        self._talk.begin(self._command, line)

    def next_mode(self) -> None:
        """Switch to the next mode, from the next prompt on; approvals given for all calls are asked for again."""
        self._talk.begin(self._next_mode)

    def tell_agent(self, agent_id: str, text: str) -> None:
        """Tell one of the agents at work something, be it a step's or the person's own."""
        self._talk.begin(self._tell_agent, agent_id, text)

    async def _tell_agent(self, agent_id: str, text: str) -> None:
        session = self._talk.plans.session
        step_id = None if session is None else session.steering.step_of(agent_id)
        if session is not None and step_id is not None:
            session.control.submit(Steer(step_id=step_id, text=text), lambda problem: self._talk.say(problem or TAKEN))
            return
        main = self._stage.store.view.main
        was_taken = main is not None and main.id == agent_id and self._conversation.steer(text)
        self._talk.say(TAKEN if was_taken else "not sent: this agent has finished")

    async def _next_mode(self) -> None:
        async with self._changing:
            conversation = self._conversation
            setup = conversation.setup
            change = mode_after(setup.profile.name, conversation.approvals.mode, setup.engine.agents.profiles)
            await conversation.configure(change)
        start = self._stage.start
        if start.is_open:
            await self._talk.show_facts()

    def leave(self) -> None:
        """End the conversation."""
        self._talk.end()

    async def _send(self, prompt: str, files: tuple[Path, ...] = ()) -> None:
        since, opening = len(self._conversation.messages), self._talk.opening
        try:
            images = await to_thread.run_sync(images_in, files)
            acted = (await self._conversation.send(prompt, images=images, limits=self._limits)).acted
            if acted.outcome in {Outcome.LIMIT, Outcome.FAILED} and len(self._conversation.messages) == since:
                self._stage.give_back(prompt, acted.detail)  # no event told why it was not said to the agent
            elif acted.outcome is Outcome.LIMIT:
                self._talk.say(acted.detail, "warning")
            self._talk.begin(tell_changes, self._talk, since, acted.files_changed)
        except NoSuchCommandError as error:
            self._stage.give_back(prompt, f"{error.among(self._talk.commands)}")
        except VibeError as error:
            self._stage.give_back(prompt, f"{error}")
            if isinstance(error, MissingKeyError) and prompt != opening.prompt:  # not put off a moment ago
                await self._command("/setup")
        finally:
            self._work_ended()

    async def _shell(self, command: str, tell_model: bool) -> None:  # noqa: FBT001  passed on positionally
        try:
            await self._conversation.shell(command, tell_model=tell_model, in_colour=True)
        except VibeError as error:
            self._stage.give_back(f"{'!' if tell_model else '!!'}{command}", f"{error}")
        finally:
            self._work_ended()

    def _work_ended(self) -> None:
        plans = self._talk.plans
        self._stage.work_ended(is_planning=plans.is_taken)

    async def _command(self, line: str) -> None:
        called = self._talk.commands.called(line)
        if called is None:
            await self._send(line)  # the conversation itself reports a command that does not exist
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
    """Return the change to the mode that follows the given agent and approvals.

    Only ``known`` agents count. The first mode follows an agent that is none of the modes.

    Raises:
        UsageError: no mode is known.
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
    """Return a session's saved messages, with a way to read those that a summary replaced."""

    async def read_earlier() -> SavedPart:
        earlier = await to_thread.run_sync(before_summary, paths, session_id)
        return SavedPart(()) if earlier is None else _saved(paths, earlier.session_id, earlier.messages)

    return SavedPart(tuple(messages), read_earlier if begins_with_summary(messages) else None)


async def hold_chat(
    host: Host, talk: tuple[Opening, PromptLimits], stage: ChatScreen, *, sets_up: bool = False
) -> None:
    """Hold a conversation on the screen until the person leaves.

    First set vibe up if ``sets_up``, or if the person has no API key yet, and ask whether to trust the folder.

    Raises:
        UsageError, EnvironmentFailure, ipc.errors.IpcError: as for ``LocalTalk.hold``.
    """
    opening, limits = talk
    if sets_up or (opening.model is None and await to_thread.run_sync(is_due, host, opening.workdir)):
        await set_up(stage, host, opening.workdir)
    if not opening.trust:
        await ask_for_trust(host, opening.workdir, stage.requests.user_input, lambda text: stage.say(text, "error"))
    async with Runtime(host) as runtime:
        await LocalTalk(runtime, replace(opening, key_may_come_later=True), limits, stage).hold()
