"""ChatScreen: the screen with the chat, the panels below it and the overview beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeAlias, TypeVar

from anyio import Event
from msgspec.structs import replace
from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.events import DescendantFocus, Key, Mount, Paste, Resize, ScreenResume
from textual.screen import Screen

from vibe import __version__
from vibe.cli.editor import edited
from vibe.cli.environment import CliEnvironment
from vibe.cli.textual_ui.controllers.app_controller import AppController, Chat
from vibe.cli.textual_ui.input.prompt_area import PromptArea
from vibe.cli.textual_ui.input.prompt_input import PromptInput
from vibe.cli.textual_ui.log.chat_log import ChatLog
from vibe.cli.textual_ui.log.markdown_blocks import warm
from vibe.cli.textual_ui.overview.summaries import SidePanel, has_overview
from vibe.cli.textual_ui.overview.ticker import QueuedList, Ticker, WorkingLine, is_busy, is_live, planner
from vibe.cli.textual_ui.panels.bottom_panel import BottomPanel
from vibe.cli.textual_ui.panels.panel_frame import TINY, PanelFrame
from vibe.cli.textual_ui.panels.plan_panels import PlanPanel
from vibe.cli.textual_ui.panels.proposal_panel import ProposalPanel
from vibe.cli.textual_ui.panels.request_queue import PendingAnswer, RequestQueue
from vibe.cli.textual_ui.presenters.chat_presenter import ChatPresenter, journals_of
from vibe.cli.textual_ui.presenters.plan_cards import PlanCards, PlanningCards
from vibe.cli.textual_ui.presenters.start_page import StartPage
from vibe.cli.textual_ui.refresher import RowCompositor, app_of
from vibe.cli.textual_ui.state_store import ScreenPhase, UIStateStore
from vibe.core.config.paths import shown
from vibe.front.start_screen import LOOK, StartChoice, StartFacts
from vibe.system.errors import VibeError
from vibe.system.own_places import user_home_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from ipc.events import PlanProposedEvent
    from vibe.app.plan.looking_back import PastPlan
    from vibe.view.agent_view import Key as ViewKey
    from vibe.view.view import View

HIGH = 16
"""The height in rows from which there is an empty row above and below the prompt, and before docked widgets."""
WIDE = 150
"""The width in columns from which the overview is shown beside the chat, if it has content."""
HISTORY_FILE = "history"
NOTIFICATION_SECONDS = 3.0
"""The time, in seconds, that a message is shown as a notification while another screen covers the chat."""
HINT = "Ask anything · / commands · @ files · ! shell"
PLAN_MODE = "plan"
"""The profile of the agent that only reads and proposes plans."""
PLAN_HINT = "Enter proposes a plan · / commands · @ files · ! shell"
BUSY_HINT = "Enter queues · Ctrl+S tells the agent now"
PLANNING_HINT = "Ctrl+S tells the planner something"
RUN_HINT = "/steer STEP TEXT tells a step's agent something · / commands"
"""The placeholder for the run of a plan in another process, which takes no prompts."""

Chosen = TypeVar("Chosen")
Hold: TypeAlias = "Callable[[ChatScreen], Awaitable[None]]"
"""Opens a chat on the screen and returns once it is left."""


async def choice_of(app: App[None], screen: Screen[Chosen]) -> Chosen | None:
    """Push a screen and return the person's choice there, or None if they made none."""
    choice = PendingAnswer[Chosen | None]()
    app.push_screen(screen, choice.give)
    return await choice.given()


class LowestScreen(Screen[None]):
    """A screen that is not drawn while another one covers it; Textual would treat every screen as see-through."""

    @property
    def is_current(self) -> bool:
        """True if the screen can be seen: it is on top, or the screen on top is see-through."""
        top = self.app.screen  # pyright: ignore[reportUnknownMemberType]  Textual's app has no type
        return top is self or (super().is_current and top.styles.background.a < 1)


class ChatScreen(LowestScreen):
    """The main screen, and the stage that a conversation is shown on by whoever holds it.

    ``store`` takes the events, ``requests`` asks the person, and ``switch`` leaves this chat for another.
    ``is_drawn`` is set once the first frame is drawn. ``clock`` returns Unix seconds.
    """

    DEFAULT_CSS = """
    ChatScreen #main { height: 1fr; }
    ChatScreen #chat { width: 1fr; }
    ChatScreen SidePanel { display: none; }
    ChatScreen SidePanel.shown { display: block; }
    ChatScreen.low.asking Ticker, ChatScreen.low.asking #chat > * { display: none; }
    ChatScreen.low.asking #chat > BottomPanel { display: block; }
    ChatScreen.low.asking PanelFrame { max-height: 100vh; }
    ChatScreen.high ChatLog, ChatScreen.high WorkingLine { margin-bottom: 1; }
    ChatScreen.high PromptInput > Horizontal { padding: 1; }
    """

    VERTICAL_BREAKPOINTS = [(0, "low"), (TINY, "middling"), (HIGH, "high")]  # noqa: RUF012  as in Textual
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+t", "look('overview')", "Overview", show=False),
        Binding("tab", "mark(0)", "Complete, else mark an entry of the chat", show=False),
        Binding("ctrl+up", "mark(-1)", "Mark the entry above", show=False),
        Binding("ctrl+down", "mark(1)", "Mark the entry below", show=False),
        Binding("f2", "look('agents')", "Agents: full screen", priority=True, show=False),
        Binding("ctrl+s", "steer", "Tell the agent at work now", show=False),
        Binding("alt+up", "recall", "Take the last queued prompt back", show=False),
    ]

    def __init__(
        self,
        env: CliEnvironment,
        store: UIStateStore,
        controller: AppController,
        switch: Callable[[Hold], object],
        clock: Callable[[], float],
    ) -> None:
        super().__init__()
        self._compositor = RowCompositor()
        self.is_drawn = Event()
        self.store = store
        self.requests = RequestQueue(lambda request_id: store.view.asker(request_id))  # noqa: PLW0108  the view may be replaced
        self.switch = switch
        self.log_view = ChatLog(id="log")
        self.start = StartPage(self.log_view, self._take_choice, clock)
        self.prompt = PromptInput(
            history=env.home / HISTORY_FILE,
            placeholder=HINT,
            scroll=self.log_view.scroll_by_key,
            blank=self.start.press,
        )
        self._env = env
        self._controller = controller
        self._queued = QueuedList(store)
        self._read = journals_of(env.home, env.runtime_dir)
        self.presenter = ChatPresenter(self.log_view, read=self._read)
        self._cards = PlanCards(self.log_view, clock)
        self.plannings = PlanningCards(
            self.log_view, clock, again=lambda goal: controller.submit(f"/plan {goal}"), look=self._open_agents
        )
        self._side = SidePanel(clock)
        self._working = WorkingLine(clock=clock)
        self.ticker = Ticker(is_hidden=self._cards.is_out_of_sight, clock=clock)
        self.bottom = BottomPanel(self.prompt, self.requests, now=clock, show_sign=self.ticker.show_sign, id="bottom")
        self._proposal: tuple[str, PendingAnswer[tuple[str, str]]] | None = None
        """The document of a proposed plan and its awaited answer, a word of ``VerdictKind`` with a text."""
        self._is_wide = False
        self._overview: bool | None = None
        """True or False if the person opened or closed the overview; None while it shows and hides by itself."""
        self._clock = clock
        self.left_running = ""
        """The id of the plan that is to go on after the person leaves; blank if there is none."""
        self.parting = ""
        """The last message shown while the person was leaving, to be printed in their shell."""

    def compose(self) -> ComposeResult:
        """Compose the chat, the overview beside it and the status line below."""
        with Horizontal(id="main"):
            with Vertical(id="chat"):
                yield self.log_view
                yield self._working
                yield self._queued
                yield self.bottom
            yield self._side
        yield self.ticker

    @on(Mount)
    def _begin(self) -> None:
        """Register the presenters, show the start screen, and set ``is_drawn`` after the first frame."""
        shown = (self._side, self._working, self.ticker, self._queued)
        for presenter in (self.presenter, self.plannings, self._cards, *shown, self.bottom):
            self.store.add(presenter.present)
        self.store.add(self._present_line)
        self.watch(self.log_view, "scroll_y", self.ticker.refresher.request, init=False)
        self.start.begin(self._first_facts(self._env.cwd, is_new=True))
        self.prompt.complete_with(commands=self._controller.commands, root=self._env.cwd)
        self.prompt.focus()
        self.call_after_refresh(self.is_drawn.set)

    def focus_for(self, event: Key | Paste) -> None:
        """Focus the prompt, or the panel in its place, for text that the focused widget has no use for.

        A panel has none for what is pasted, unless its text field is open, so the prompt is shown in its place.
        """
        panel = self.bottom.shown
        if isinstance(event, Paste) and isinstance(panel, PanelFrame) and not panel.has_words:
            self.bottom.show_input()
            self.prompt.focus()
        is_text = isinstance(event, Paste) or (event.is_printable and not self.log_view.takes(event.key))
        if is_text and self.bottom not in (() if self.focused is None else self.focused.ancestors):
            self.bottom.focus()

    @on(Key)
    def _take_key(self, event: Key) -> None:
        """Put into the prompt what is typed before the prompt has the focus."""
        is_starting = self.store.screen.phase is ScreenPhase.STARTING
        if self.has_class("asking") or self.log_view.takes(event.key):
            return
        if event.is_printable and event.character:
            self.prompt.set_text(self.prompt.text + event.character)
            self.prompt.focus()
        elif event.key in {"enter", "ctrl+j"} and is_starting:
            # Enter pressed while the terminal was still in line mode comes as Ctrl+J.
            self._controller.submit(self.prompt.text)
            self.prompt.clear()

    @on(ScreenResume)
    def _come_back(self) -> None:
        """Give the focus back to an open panel after another screen covered it."""
        if self.has_class("asking"):
            self.bottom.focus()

    @on(Resize)
    def _fit(self, event: Resize) -> None:
        """Show or hide the overview as the new width allows."""
        is_wide = event.size.width >= WIDE
        if is_wide is not self._is_wide and self._overview is False:
            self._overview = None
        self._is_wide = is_wide
        self._place_overview()

    def _place_overview(self) -> None:
        """Show the overview if the person opened it, or else if there is room and it has content."""
        by_itself = self._is_wide and has_overview(self.store.view)
        self._side.set_class(by_itself if self._overview is None else self._overview, "shown")

    def _present_line(self, view: View, changed: frozenset[ViewKey]) -> None:  # noqa: ARG002  as every presenter
        """Update the prompt's placeholder to what Enter does now, and mark it if the agent acts without asking."""
        self._place_overview()
        agent = view.agents.get(self.ticker.agent_id) or view.main
        works = agent is not None and agent.prompt is not None
        plans = agent is not None and agent.profile == PLAN_MODE
        usual = RUN_HINT if agent is None and view.plan is not None else HINT
        idle = PLANNING_HINT if is_busy(planner(view)) else PLAN_HINT if plans else usual
        self.prompt.hint(BUSY_HINT if works else idle)
        self.prompt.set_class(agent is not None and agent.approvals == "all", "unasked")

    # --- as a stage

    def opened(self, chat: Chat, prompt: str, plans: Sequence[PastPlan] = ()) -> None:
        """Show a conversation that was opened, with the ``plans`` it had before, and send its first prompt if any."""
        about = chat.about
        is_first = self.store.screen.phase is ScreenPhase.STARTING
        early = [one for one in self.log_view.entries if is_first and one.kind == "note"]
        self.presenter.show(self.store.view, about.session_id)
        self.ticker.agent_id = self._working.agent_id = about.session_id
        self.presenter.resume(about.saved, [(each.place, self._cards.record(each.view)) for each in plans])
        self.store.view.plans.update({each.view.id: each.view for each in plans if each.view.status == "paused"})
        self.run_worker(warm, thread=True, group="warm", exit_on_error=False)
        if prompt or self.store.screen.queued or not about.session_id:
            self.start.drop()
        else:
            facts = self._first_facts(about.folder, is_new=not about.saved.messages)
            self.start.begin(replace(facts, with_cards=[each.view.id for each in plans]))
        self.log_view.extend(early)
        self.prompt.complete_with(commands=self._controller.commands, root=about.folder)
        self._cards.is_elsewhere = not about.session_id
        self.bottom.is_over = False
        self._controller.opened(chat, prompt)

    def work_ended(self, *, is_planning: bool) -> None:
        """Go on after the agent or the person's command has ended: send the next queued prompt.

        Unless planning goes on, no further version of a proposed plan will come, so its panel is closed.
        """
        if not is_planning:
            self.bottom.end_proposal()
        self._controller.send_next()

    def submit(self, prompt: str, *, is_line: bool = True) -> None:
        """Submit a prompt that was not typed into this prompt widget; only with ``is_line`` may it be a command."""
        self.start.close()
        self._controller.submit(prompt, is_line=is_line)

    def say(self, text: str, status: str = "note") -> None:
        """Show a message of vibe's own in the chat, and as a notification if another screen covers it.

        ``status`` is ``note``, ``typed`` (a command), ``warning`` or ``error``.
        """
        if self.store.screen.phase is ScreenPhase.LEAVING:
            self.parting = text.partition("\n")[0]
        if not app_of(self).is_running:
            return  # the app has crashed, and the conversation is being closed
        self.store.flush()  # the events that the message is about come first
        self.presenter.say(text, status)
        if app_of(self).screen is not self:
            severity = "error" if status == "error" else "information"
            self.notify(text.partition("\n")[0], severity=severity, timeout=NOTIFICATION_SECONDS, markup=False)

    def leave(self) -> None:
        """Leave, after asking once what is to become of a running plan."""
        chat, plan = self._controller.chat, self.store.view.plan
        about = None if chat is None or self.store.screen.phase is ScreenPhase.LEAVING else chat.about
        goes_on = "" if about is None or not about.session_id else about.goes_on
        can_outlive = self._env.owns_process and self._env.given is None
        is_asked = plan is not None and bool(goes_on) and is_live(plan)
        if plan is None or not is_asked or not self.bottom.ask_leaving(plan, goes_on, can_outlive=can_outlive):
            self._controller.leave()

    def edit(self, text: str, name: str) -> str:
        """Open a text in the person's editor, as a file of the given name, and return the edited text.

        The app is suspended meanwhile, and resumes whatever becomes of the editor.

        Raises:
            EnvironmentFailure: there is no editor, or it failed.
        """
        outcome: str | Exception = text
        with app_of(self).suspend():  # Textual does not resume after an error raised in this block
            try:
                outcome = edited(text, name, self._env)
            except Exception as error:  # noqa: BLE001  raised below
                outcome = error
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def give_back(self, line: str, problem: str = "") -> None:
        """Show why a line was refused, and put it back into the prompt if that is empty.

        A refused command is selected there, so that what is typed next replaces it; a space adds to it.
        """
        if problem:
            self.say(problem, "error")
        if not self.prompt.text.strip():
            self.prompt.set_text(line, selected=bool(problem) and line.startswith(("/", "!")))

    async def ask_about_plan(self, proposed: PlanProposedEvent, document: str) -> tuple[str, str]:
        """Show a proposed plan and return the answer, a word of ``VerdictKind`` and its text.

        Cancelling hides the proposal.
        """
        answer = PendingAnswer[tuple[str, str]]()
        self._proposal = (document, answer)
        self.bottom.show_proposal(proposed)
        try:
            return await answer.given()
        except BaseException:
            self.bottom.end_proposal()
            raise
        finally:
            self._proposal = None

    # --- keys

    def action_look(self, what: str) -> None:
        """Toggle the ``overview``, or show all ``agents`` on a screen of their own."""
        if what == "overview":
            self._overview = not self._side.display
            self._place_overview()
        else:
            self._open_agents()

    def _open_agents(self, tile_id: str = "") -> None:
        """Show all agents over the chat, or the transcript of one tile of the fleet screen."""
        from vibe.cli.textual_ui.screens import agent_screens  # noqa: PLC0415  after the first frame

        chat = self._controller.chat
        if chat is not None and app_of(self).screen is self:  # otherwise a screen was just opened
            desk = agent_screens.AgentDesk(
                store=self.store, chat=chat, requests=self.requests, read=self._read, clock=self._clock
            )
            screen = agent_screens.TranscriptScreen(desk, tile_id) if tile_id else agent_screens.FleetScreen(desk)
            # the chat shows all that was notified there, too
            app_of(self).push_screen(screen, lambda _: app_of(self).clear_notifications())

    @on(DescendantFocus)
    def _show_keys(self) -> None:
        self.ticker.keys = ChatLog.KEYS if self.focused is self.log_view else ""
        self.ticker.refresh()

    def _action_mark(self, step: int) -> None:
        """Focus the chat log and mark an entry there."""
        self.set_focus(self.log_view)
        self.log_view.action_mark(step)

    def _action_leave_log(self) -> None:
        self.bottom.focus()

    def action_steer(self) -> None:
        """Tell the agent at work what is typed, or else the queued prompts."""
        if not self.prompt.steer():
            self._controller.steer_queued()

    def action_recall(self, which: str = "last") -> None:
        """Put the ``last`` queued prompt, or ``all`` of them, back into the prompt, before what is typed there."""
        while text := self._controller.recall():
            self.prompt.set_text("\n".join(filter(None, (text, self.prompt.text))))
            if which == "last":
                return

    # --- what is typed

    @on(PromptArea.Changed)
    def _on_typed(self) -> None:
        """Once something is typed, take the keys from the start screen and scroll the log back to its end."""
        if self.prompt.text:
            self.start.release_keys()
            self.log_view.go_back()

    def _take_choice(self, choice: StartChoice) -> None:
        """Submit the line chosen on the start screen, or put it into the prompt."""
        if choice.is_sent:
            if choice.verb != LOOK:
                self.start.close()
            self._controller.submit(choice.line)
        else:
            self.prompt.set_text(choice.line)

    def _first_facts(self, folder: Path, *, is_new: bool) -> StartFacts:
        """Return the facts for the start screen that are known at once."""
        home = user_home_of(self._env.environ)
        return StartFacts(version=__version__, folder="~" if folder == home else shown(folder, home), is_new=is_new)

    @on(PromptInput.Sent)
    def _take_line(self, message: PromptInput.Sent) -> None:
        self.start.close()
        self.log_view.to_end()
        take = self._controller.steer if message.steers else self._controller.submit
        take(message.text, message.images)

    @on(ChatLog.OlderWanted)
    def _show_older(self) -> None:
        self.run_worker(self.presenter.show_older(), group="older")

    @on(PromptInput.EditorWanted)
    def _edit_prompt(self, message: PromptInput.EditorWanted) -> None:
        text = self._edited(message.text, "prompt.md")
        if text is not None:
            self.prompt.set_text(text)

    @on(ProposalPanel.Answered)
    def _answer_proposal(self, message: ProposalPanel.Answered) -> None:
        if self._proposal is None:
            return
        document, answer = self._proposal
        text = self._edited(document, "plan.json") if message.word == "edit" else message.text
        if text is not None and text.strip() != document.strip():
            answer.give((message.word, text))

    @on(PlanPanel.Acted)
    def _act_on_plan(self, message: PlanPanel.Acted) -> None:
        """Do what the person chose for a failed step, or for a plan on leaving."""
        if message.agent is not None:
            self._open_agents(message.agent)
        chat = self._controller.chat
        if message.line and chat is not None:
            chat.command(message.line)
        if message.leaves:
            self.left_running = message.panel.plan.id if message.goes_on else ""
            self._controller.leave()

    @on(Ticker.PlanWanted)
    def _show_plan(self) -> None:
        self._cards.reveal()

    def _edited(self, text: str, name: str) -> str | None:
        """Return a text as the person's editor left it, or None after showing why that failed."""
        try:
            return self.edit(text, name).rstrip("\n")
        except VibeError as error:
            self.say(f"{error}", "error")
            return None
