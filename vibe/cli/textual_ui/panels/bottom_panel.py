"""BottomPanel: the bottom of the screen, which belongs to the prompt, a request to the person or a proposed plan."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import Key
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input, Static

from ipc.events import PlanProposedEvent
from vibe.cli.textual_ui.panels.panel_frame import NARROW, PanelFrame, TypingGuard
from vibe.cli.textual_ui.panels.proposal_panel import ProposalPanel
from vibe.cli.textual_ui.panels.request_panels import panel_for
from vibe.cli.textual_ui.panels.request_queue import PendingRequest, RequestQueue, RequestReply

if TYPE_CHECKING:  # it loads tree-sitter
    from textual.widgets import TextArea

WAKE_SECONDS: Final = 0.1
"""Between two looks at whether the person still types."""


class BottomPanel(Vertical):
    """Shows the prompt, or the panel of the request that is looked at, or a proposed plan; a request comes first.

    What is put off waits until the person looks at it; what comes later is shown.

    ``prompt`` is hidden meanwhile, with what is written in it; the focus goes back to where it was. Who types when a
    panel appears goes on typing: it takes keys once they pause. ``clock`` tells monotonic, ``now`` unix seconds.
    While a panel is shown, the screen has the class ``asking``.
    """

    DEFAULT_CSS = """
    BottomPanel { height: auto; }
    BottomPanel > .bottom--waiting {
        height: 1; text-wrap: nowrap; text-overflow: ellipsis; padding: 0 1; color: $text-warning; display: none;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+n", "look(1)", "next request", show=False),
        Binding("ctrl+b", "look(-1)", "request before", show=False),
    ]

    def __init__(
        self,
        prompt: Widget,
        queue: RequestQueue,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        id: str | None = None,  # noqa: A002  Textual's name
    ) -> None:
        super().__init__(id=id)
        self._prompt = prompt
        self._queue = queue
        self._now = now
        self.guard = TypingGuard(clock)
        self._waiting = Static(classes="bottom--waiting")
        self._panels: dict[PendingRequest, PanelFrame] = {}
        self.proposal: ProposalPanel | None = None
        """The panel of the proposed plan, in sight or not; None: no plan is proposed."""
        self.shown: Widget = prompt
        """The prompt, or the panel in its place."""
        self._leaving: Widget | None = None
        self._focus_before: Widget | None = None
        self._aside = set[PendingRequest | ProposalPanel]()
        """Those that are put off."""
        self._waking: Timer | None = None

    # --- what is shown

    def show_proposal(self, event: PlanProposedEvent, before: PlanProposedEvent | None = None) -> None:
        """Show a proposed plan in place of the one before, once no request waits.

        It tells what is different from ``before``, or from the version that was shown, if it is a later one.
        """
        old = self.proposal
        if before is None and old is not None and old.event.draft < event.draft:
            before = old.event
        self.proposal = ProposalPanel(event, self.guard, before)
        self.proposal.display = False
        self.mount(self.proposal)
        self._settle()
        if old is not None:
            self._forget(old)

    def end_proposal(self) -> None:
        """Take the proposal away; accepting or dropping it does so."""
        if self.proposal is not None:
            old, self.proposal = self.proposal, None
            self._settle()
            self._forget(old)

    def put_proposal_off(self) -> None:
        """Show the prompt in place of the proposal."""
        if self.proposal is not None:
            self._aside.add(self.proposal)
            self._settle()

    def show_input(self) -> None:
        """Show the prompt; what waits does so until the person asks for it."""
        self._aside.update(self._queue.pending)
        self.put_proposal_off()
        self._settle()

    def action_look(self, step: int) -> None:
        """Look at the next request, or the one before; from the prompt at what waits, or else at the proposal."""
        self.guard.finished()  # who asks for a panel means the keys for it
        if self.shown is self._prompt:
            self._aside.clear()
            self._settle()
        else:
            self._aside.difference_update(self._queue.pending)
            self._queue.look(step)

    def focus(self, scroll_visible: bool = True) -> BottomPanel:  # noqa: ARG002, FBT001, FBT002  as in Textual
        """Have the keys come to what is shown."""
        self._focus_before = self._prompt if self.shown is self._prompt else self._focus_before
        self._focus(self.shown)
        return self

    def takes(self, event: Key) -> bool:
        """Give a letter to the panel that is shown, as it came to another part of the screen; False: none is shown."""
        if not isinstance(self.shown, PanelFrame):
            return False
        if event.is_printable and self.shown not in getattr(self.screen.focused, "ancestors", ()):
            panel = self.shown
            panel.on_key(event)
            if panel is self.shown:
                panel.take_focus()
        return True

    # --- the widget

    def compose(self) -> ComposeResult:
        """Only the prompt at first."""
        yield self._waiting
        yield self._prompt

    def on_mount(self) -> None:
        """Follow the queue."""
        self._queue.changed = self._changed
        self._settle()

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """Take note that the person types."""
        if event.text_area.text:
            self.guard.typed()
        else:  # sent, or given up
            self.guard.finished()

    @on(PanelFrame.PutOff)
    def _put_off(self, event: PanelFrame.PutOff) -> None:
        event.stop()
        self.show_input()

    @on(PanelFrame.Replied)
    def _replied(self, event: PanelFrame.Replied) -> None:
        event.stop()
        self.run_worker(self._answer(event.pending, event.reply), group="answers")

    @on(ProposalPanel.Answered)
    def _proposal_answered(self, event: ProposalPanel.Answered) -> None:
        if event.word in {"run", "drop"}:
            self.end_proposal()

    async def _answer(self, pending: PendingRequest, reply: RequestReply) -> None:
        problem = await self._queue.answer(pending, reply)
        panel = self._panels.get(pending)
        if problem and panel is not None:
            panel.tell(problem)

    def _changed(self) -> None:
        if self.is_attached:
            self._settle()

    def _settle(self) -> None:
        """Show what is to be shown now."""
        pending = self._queue.pending
        wanted = self._wanted()
        if wanted is not self.shown:
            self._change(wanted)
        for request in [each for each in self._panels if each not in pending]:
            self._panels.pop(request).remove()
            self._aside.discard(request)
        for panel in self._panels.values():
            panel.more = len(pending) - 1
        what = "1 request waits" if len(pending) == 1 else f"{len(pending)} requests wait"
        if not pending:
            what = "a proposed plan waits"
        self._waiting.display = wanted is self._prompt and (bool(pending) or self.proposal is not None)
        self._waiting.update(f"Ctrl+N: {what}" if self.screen.size.width < NARROW else f"{what} for you: Ctrl+N")

    def _forget(self, proposal: ProposalPanel) -> None:
        self._aside.discard(proposal)
        proposal.remove()

    def _wanted(self) -> Widget:
        self._queue.pass_over(self._aside)
        current = self._queue.current
        if current is None or current in self._aside:
            proposal = self.proposal
            return self._prompt if proposal is None or proposal in self._aside else proposal
        if current not in self._panels:
            panel = self._panels[current] = panel_for(current, self.guard, self._now)
            panel.display = False
            self.mount(panel)
        return self._panels[current]

    def _change(self, wanted: Widget) -> None:
        before, self.shown = self.shown, wanted
        self.screen.set_class(wanted is not self._prompt, "asking")
        focused = self.screen.focused
        if before is self._prompt or (focused is not None and self not in focused.ancestors_with_self):
            self._focus_before = focused
        self._leave()
        wanted.display = True
        is_typing = self.guard.is_typing
        if isinstance(wanted, PanelFrame):
            wanted.asleep = is_typing
        if is_typing and wanted is not self._prompt and self._takes_words(focused):
            self._leaving = before  # keys still go there
        else:
            before.display = False
            self._focus(wanted)
        if is_typing and self._waking is None:
            self._waking = self.set_interval(WAKE_SECONDS, self._wake)

    def _takes_words(self, focused: Widget | None) -> bool:
        return isinstance(focused, Input) or (focused is not None and self._prompt in focused.ancestors_with_self)

    def _leave(self) -> None:
        if self._leaving is not None:
            self._leaving.display = self._leaving is self.shown
            self._leaving = None

    def _wake(self) -> None:
        if self.guard.is_typing:
            return
        if self._waking is not None:
            self._waking.stop()
            self._waking = None
        if isinstance(self.shown, PanelFrame):
            self.shown.asleep = False
        if self._leaving is not None:
            self._leave()
            self._focus(self.shown)

    def _focus(self, wanted: Widget) -> None:
        if isinstance(wanted, PanelFrame):
            wanted.take_focus()
            return
        before, self._focus_before = self._focus_before, None
        if before is not None and before.is_attached and before.focusable:
            before.focus()
            return
        found = next((each for each in (wanted, *wanted.query("*")) if each.focusable), None)
        if found is not None:
            found.focus()
