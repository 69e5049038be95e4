"""TranscriptScreen: an agent or a step opened: what is told, said and done there, live, and a line to talk to it."""

from __future__ import annotations

from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, Static

from vibe.cli.textual_ui.controllers.app_controller import Chat
from vibe.cli.textual_ui.log.chat_log import ChatLog
from vibe.cli.textual_ui.overview.side_panel import STYLES, agent_name
from vibe.cli.textual_ui.overview.ticker import Refresher, pressure
from vibe.cli.textual_ui.presenters.chat_presenter import ChatPresenter, ReadJournals
from vibe.front.cells import cut
from vibe.front.event_text import one_line
from vibe.front.plan_words import mark, mode_icon
from vibe.view.agent_view import AgentView, Key
from vibe.view.figures import short
from vibe.view.plan_view import StepView
from vibe.view.view import View

NOTHING_YET = "nothing here yet"
LOG_KEYS = "Esc back · s talk to it · Enter fold"
STEP_KEYS = " · x stop · k skip · r retry"
AGENT_KEYS = " · ←→ agent"
INPUT_KEYS = "Enter send · Esc back to the log"
LINE_LENGTH = 400


class TranscriptLog(ChatLog):
    """The log, with the keys of the screen it is on."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "screen.next_agent(-1)", "Agent before", show=False),
        Binding("right", "screen.next_agent(1)", "Next agent", show=False),
        Binding("x", "screen.act('cancel')", "Stop the step", show=False),
        Binding("k", "screen.act('skip')", "Skip the step", show=False),
        Binding("r", "screen.act('retry')", "Do the step again", show=False),
    ]


class TranscriptScreen(Screen[None]):
    """Shows one agent, or with ``step_id`` the agents of a step, of which left and right choose one.

    ``chat`` carries out the person's wishes, ``read`` finds what the view does not keep. Its
    owner passes each change to ``present``.
    """

    DEFAULT_CSS = """
    TranscriptScreen { layout: vertical; }
    TranscriptScreen .head { height: 2; background: $panel; color: $foreground; text-wrap: nowrap; padding: 0 1; }
    TranscriptScreen .keys { height: 1; background: $panel; color: $foreground-muted; text-wrap: nowrap; padding: 0 1; }
    TranscriptScreen Input { height: 1; border: none; padding: 0 1; }
    TranscriptScreen Input:focus { border: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", show=False),
        # First of all, so that the next key is the line's and acts on nothing, however soon it comes.
        Binding("s", "talk", "Talk to it", priority=True, show=False),
    ]
    AUTO_FOCUS: ClassVar[str | None] = "TranscriptLog"

    def __init__(
        self, view: View, chat: Chat, read: ReadJournals | None, *, agent_id: str = "", step: tuple[str, str] = ("", "")
    ) -> None:
        """``step`` is the id of a plan and that of its step; blank: the screen is about ``agent_id`` alone."""
        super().__init__()
        self.agent_id = agent_id
        self.plan_id, self.step_id = step
        self._view = view
        self._chat = chat
        self._head = Static(classes="head", markup=False)
        self._log = TranscriptLog()
        self._input = Input(placeholder="talk to it", select_on_focus=False)
        self._keys = Static(classes="keys", markup=False)
        self._presenter = ChatPresenter(self._log, agent_id, read=read)
        self._refresher = Refresher(self, self._draw)

    def compose(self) -> ComposeResult:
        """State, log, line and keys."""
        yield self._head
        yield self._log
        yield self._input
        yield self._keys

    def on_mount(self) -> None:
        """Show what is known."""
        self.present(self._view, frozenset())

    def present(self, view: View, changed: frozenset[Key]) -> None:
        """Show what changed."""
        self._view = view
        agents = self._agents()
        if agents and self.agent_id not in {agent.id for agent in agents}:
            self._open(agents[-1])
        elif self.agent_id:
            self._presenter.present(view, changed)
        self._refresher.wish()

    def on_chat_log_older_wanted(self, message: ChatLog.OlderWanted) -> None:
        """Show what was before."""
        message.stop()
        self.run_worker(self._presenter.show_older(), group="older")

    def action_next_agent(self, by: int) -> None:
        """Show another agent of the step."""
        agents = self._agents()
        ids = [agent.id for agent in agents]
        if len(ids) > 1 and self.agent_id in ids:
            self._open(agents[(ids.index(self.agent_id) + by) % len(ids)])
            self._draw()

    def action_act(self, action: str) -> None:
        """Stop or skip the step, or have it done again."""
        if self.step_id:
            self._chat.act_on_step(action, self.plan_id, self.step_id)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Tell whether a key counts: in the line, none that is a letter does."""
        if action == "talk":
            return self.focused is not self._input
        return super().check_action(action, parameters)

    def action_talk(self) -> None:
        """Take the keys to the line."""
        self.set_focus(self._input)

    def action_back(self) -> None:
        """From the line to the log, and from there to where the screen was opened."""
        if self.focused is self._input:
            self.set_focus(self._log)
        else:
            self.dismiss()

    def on_input_submitted(self, message: Input.Submitted) -> None:
        """Say a line to the agent."""
        message.stop()
        text = message.value.strip()
        if text and self.agent_id:
            self._input.clear()
            self._chat.tell_agent(self.agent_id, text)

    def _open(self, agent: AgentView) -> None:
        self.agent_id = agent.id
        self._presenter.show(self._view, agent.id)

    def _step(self) -> StepView | None:
        plan = self._view.plans.get(self.plan_id)
        return None if plan is None else plan.steps.get(self.step_id)

    def _agents(self) -> list[AgentView]:
        step = self._step()
        if step is not None:
            return list(step.agents.values())
        agent = self._agent()
        return [] if agent is None else [agent]

    def _agent(self) -> AgentView | None:
        return self._view.agents.get(self.agent_id)

    @on(events.DescendantFocus)
    @on(events.Resize)
    def _draw(self) -> None:
        width = max(1, self.size.width - 2)
        agents = self._agents()
        agent, step = self._agent(), self._step()
        heading = _heading(step, agent, width)
        state = cut(_state(agents, agent, step), width)
        style = "" if agent is None or agent.context_tokens is None else pressure(_share(agent))
        self._head.update(Content.assemble(*heading, "\n", (state, style or "$foreground-muted")), layout=False)
        if self._input.has_focus:
            keys = INPUT_KEYS
        else:
            keys = LOG_KEYS + (STEP_KEYS if step is not None else "") + (AGENT_KEYS if len(agents) > 1 else "")
        self._keys.update(Content(cut(keys, width)), layout=False)


def _heading(step: StepView | None, agent: AgentView | None, width: int) -> list[tuple[str, str]]:
    if step is not None:
        style = STYLES.get(step.status, "$foreground-muted")
        title = cut(f"{mode_icon(step.mode)} {one_line(f'{step.id}: {step.title}', LINE_LENGTH)}", width - 2)
        return [(f"{mark(step)} ", style), (title, "bold")]
    return [("agent" if agent is None else cut(agent_name(agent), width), "bold")]


def _state(agents: list[AgentView], agent: AgentView | None, step: StepView | None) -> str:
    """The line on how an agent stands."""
    reason = "" if step is None or not step.reason else f" ({step.reason})"
    status = "" if step is None else step.status.replace("_", " ") + reason
    if agent is None:
        return one_line(" · ".join(filter(None, (status, NOTHING_YET))), LINE_LENGTH)
    ids = [each.id for each in agents]
    which = f"agent {ids.index(agent.id) + 1}/{len(ids)} {agent_name(agent)}" if len(ids) > 1 else ""
    context = f"{_share(agent):.0%} context" if agent.context_tokens and agent.context_limit else ""
    tokens = f"{short(agent.spent.tokens)} tok" if agent.spent.calls else ""
    ended = (agent.outcome or "ended") if agent.ended_at is not None else ""
    parts = (status, which, agent.profile, agent.model, context, tokens, ended or agent.doing())
    return one_line(" · ".join(filter(None, parts)), LINE_LENGTH)


def _share(agent: AgentView) -> float:
    return (agent.context_tokens or 0) / agent.context_limit if agent.context_limit else 0.0
