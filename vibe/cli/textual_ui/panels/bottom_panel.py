"""BottomPanel: the bottom of the screen, which shows the prompt, or a panel in its place."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import TextArea

from ipc.events import PlanProposedEvent
from vibe.cli.textual_ui.panels.panel_frame import NARROW, WAKE_SECONDS, PanelFrame, TypingGuard
from vibe.cli.textual_ui.panels.plan_panels import FailedPanel, LeavePanel, PlanPanel, failed_steps
from vibe.cli.textual_ui.panels.proposal_panel import ProposalPanel
from vibe.cli.textual_ui.panels.request_panels import panel_for
from vibe.cli.textual_ui.panels.request_queue import PendingRequest, RequestQueue
from vibe.view.agent_view import Key
from vibe.view.plan_view import PlanView
from vibe.view.view import View

Shown = TypeVar("Shown", bound=PanelFrame)


class BottomPanel(Vertical):
    """Shows the prompt, or the first panel that waits for the person: a request, a proposed plan or a failed step.

    A panel that was put off waits until the person looks at it; those that come later are shown.

    ``prompt`` is hidden while a panel is shown, and keeps its text; afterwards the focus goes back to where it was. No
    panel replaces the prompt, or another panel's text field, while the person types or has a draft there. ``show_sign``
    gets a sign that something waits, with its style. ``clock`` returns monotonic seconds, ``now`` Unix seconds. While
    a panel is shown, the screen has the class ``asking``.
    """

    DEFAULT_CSS = """
    BottomPanel { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab,ctrl+n", "look(1)", "next", show=False),
        Binding("shift+tab,ctrl+b", "look(-1)", "previous", show=False),
    ]

    def __init__(
        self,
        prompt: Widget,
        queue: RequestQueue,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        show_sign: Callable[[str, str], object] = lambda _sign, _style: None,
        id: str | None = None,  # noqa: A002  Textual's name
    ) -> None:
        super().__init__(id=id)
        self._prompt = prompt
        self._queue = queue
        self._now = now
        self._show_sign = show_sign
        self.guard = TypingGuard(clock)
        self._panels: dict[PendingRequest, PanelFrame] = {}
        self.proposal: ProposalPanel | None = None
        """The panel of the proposed plan, visible or not; None if no plan is proposed."""
        self.shown: Widget = prompt
        """The prompt, or the panel in its place."""
        self._failed: dict[Key, FailedPanel] = {}
        """The panels of failed steps, by step and attempt."""
        self.is_over = False
        """True once the shown run takes no commands any more, because its process has ended."""
        self._leaving: LeavePanel | None = None
        self._looked_at: PanelFrame | None = None
        """The panel that the person chose to look at."""
        self._has_draft = False
        self._focus_before: Widget | None = None
        self._deferred = set[PanelFrame]()
        """The panels that were put off."""
        self._waking: Timer | None = None

    # --- what is shown

    def show_proposal(self, event: PlanProposedEvent) -> None:
        """Show a proposed plan in place of the last one, once no request waits.

        If it is a later version of that plan, its panel shows what changed.
        """
        old = self.proposal
        before = old.event if old is not None and old.event.draft < event.draft else None
        self.proposal = self._mount_panel(ProposalPanel(event, before))
        self._settle()
        if old is not None:
            self._discard(old)

    def end_proposal(self) -> None:
        """Remove the proposal; accepting or dropping it does so, too."""
        if self.proposal is not None:
            old, self.proposal = self.proposal, None
            self._settle()
            self._discard(old)

    def present(self, view: View, changed: frozenset[Key]) -> None:
        """Show a panel for each step of the latest plan that failed for good, until it is tried again."""
        if not any(key[0] == "plans" for key in changed):
            return
        plan, before = view.plan, self._failed
        self._failed = {}
        for step in failed_steps(plan) if plan is not None else ():
            key, plan = (*step.key, str(step.attempt), str(self.is_over)), view.plans[step.key[1]]
            self._failed[key] = before.pop(key, None) or self._mount_panel(
                FailedPanel(plan, step, is_over=self.is_over)
            )
        self._settle()
        for panel in before.values():
            self._discard(panel)

    def ask_leaving(self, plan: PlanView, goes_on: str, *, can_outlive: bool = False) -> bool:
        """Ask what is to become of a running plan (see ``LeavePanel``).

        If that is being asked already, stop asking and return False: who leaves again doesn't want to choose.
        """
        if self._leaving is not None:
            self._stop_asking(self._leaving)
            return False
        self._leaving = self._looked_at = self._mount_panel(LeavePanel(plan, goes_on, can_outlive=can_outlive))
        self.guard.finished()
        self._settle(is_asked=True)
        return True

    def show_input(self) -> None:
        """Show the prompt, and put off all panels until the person asks for them."""
        self._deferred.update(self._ring)
        self._settle()

    def action_look(self, step: int) -> None:
        """Show the next panel that waits (1) or the previous one (-1); from the prompt, show the first."""
        self.guard.finished()  # the person asked for the panel, so the next keys are meant for it
        ring = self._ring
        at = next((at + step for at, panel in enumerate(ring) if panel is self.shown), 0)
        self._looked_at = ring[at % len(ring)] if ring else None
        self._deferred.clear()
        self._settle(is_asked=True)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the keys that go through the panels if there is no other panel, so that the screen gets them."""
        if action == "look" and (self.shown is self._prompt or parameters == (1,)):
            return len(self._ring) > (self.shown is not self._prompt)
        return super().check_action(action, parameters)

    def focus(self, scroll_visible: bool = True) -> BottomPanel:  # noqa: ARG002, FBT001, FBT002  as in Textual
        """Focus what is shown."""
        self._focus_before = self._prompt if self.shown is self._prompt else self._focus_before
        self._focus(self.shown)
        return self

    # --- the widget

    def compose(self) -> ComposeResult:
        """Compose the prompt; panels are mounted as they are needed."""
        yield self._prompt

    def on_mount(self) -> None:
        """Follow the request queue."""
        self._queue.changed = self._changed
        self._settle()

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """Record that the person types, and whether they have a draft."""
        self._has_draft = bool(event.text_area.text.strip())
        if event.text_area.text:
            self.guard.typed()
        else:  # sent, or given up
            self.guard.finished()
        self._settle()

    @on(PanelFrame.PutOff)
    def _put_off(self, event: PanelFrame.PutOff) -> None:
        event.stop()
        self.show_input()

    @on(ProposalPanel.Answered)
    def _proposal_answered(self, event: ProposalPanel.Answered) -> None:
        if event.word in {"run", "drop"}:
            self.end_proposal()
        elif event.word == "revise":
            self.show_input()  # the next version will take its place

    @on(PlanPanel.Acted)
    def _acted(self, event: PlanPanel.Acted) -> None:
        panel = event.panel
        if panel is self._leaving:
            self._stop_asking(panel)
        elif event.line:
            self._deferred.add(panel)
            self._settle()

    def _stop_asking(self, panel: PanelFrame) -> None:
        """Remove the panel that asks before the person leaves."""
        self._leaving = None
        self._settle()
        self._discard(panel)

    def _changed(self) -> None:
        if self.is_attached:
            self._settle()

    def _settle(self, *, is_asked: bool = False) -> None:
        """Show what should be shown now; if ``is_asked``, even while the person is typing."""
        pending = self._queue.pending
        for request in [each for each in pending if each not in self._panels]:
            self._panels[request] = self._mount_panel(panel_for(request, self._now))
        ring = self._ring
        wanted = next(
            (each for each in (self._looked_at, *ring) if each in ring and each not in self._deferred), self._prompt
        )
        if wanted is not self.shown and (is_asked or not self._must_stay(ring)):
            self._switch_to(wanted)
        for request in [each for each in self._panels if each not in pending]:
            self._discard(self._panels.pop(request))
        for number, panel in enumerate(ring, start=1):
            panel.place = (number, len(ring))
        self._show_sign(*self._sign(len(ring) - (self._leaving is not None) if pending else 0))
        is_put_off = wanted is not self.shown and not (self.shown is self._prompt and self._has_draft)
        if is_put_off and self._waking is None:
            self._waking = self.set_interval(WAKE_SECONDS, self._wake)

    @property
    def _ring(self) -> list[PanelFrame]:
        """All panels that wait for the person, the most urgent first."""
        requests = [self._panels[each] for each in self._queue.pending if each in self._panels]
        panels = (self._leaving, *requests, self.proposal, *self._failed.values())
        return [panel for panel in panels if panel is not None]

    def _must_stay(self, ring: Sequence[PanelFrame]) -> bool:
        """Return whether what is shown must stay, because the person types or has typed something in it."""
        if self.shown is self._prompt:
            return self._has_draft or self.guard.is_typing
        return any(panel is self.shown and panel.has_words for panel in ring) and self.shown not in self._deferred

    def _sign(self, count: int) -> tuple[str, str]:
        """Return words that say what waits, and their style; ``count`` is 0 if no request is among what waits."""
        key = " · Tab" if self.shown is self._prompt else ""
        if count:
            who = f" {count} wait{'s' * (count == 1)} for you" if self.screen.size.width >= NARROW else f" {count}"
            return f"?{who}{key}", "bold $text-warning"
        if self._failed and not self.proposal:
            return f"✗ {len(self._failed)} failed{key}", "bold $text-error"
        return f"a plan waits for your answer{key}" if key and self.proposal else "", "bold $text-warning"

    def _mount_panel(self, panel: Shown) -> Shown:
        """Mount a panel, hidden at first."""
        panel.guard, panel.display = self.guard, False
        self.mount(panel)
        return panel

    def _discard(self, panel: PanelFrame) -> None:
        self._deferred.discard(panel)
        panel.remove()

    def _switch_to(self, wanted: Widget) -> None:
        before, self.shown = self.shown, wanted
        self.screen.set_class(wanted is not self._prompt, "asking")
        focused = self.screen.focused
        if before is self._prompt or (focused is not None and self not in focused.ancestors_with_self):
            self._focus_before = focused
        before.display, wanted.display = False, True
        if isinstance(wanted, PanelFrame):
            wanted.asleep = self.guard.is_typing
        self._focus(wanted)

    def _wake(self) -> None:
        if self._waking is not None and not self.guard.is_typing:
            self._waking.stop()
            self._waking = None
            self._settle()

    def _focus(self, wanted: Widget) -> None:
        if isinstance(wanted, PanelFrame):
            wanted.take_focus()
            return
        before, self._focus_before = self._focus_before, None
        if before is not None and before.is_attached and before.focusable:
            before.focus()
        else:
            wanted.focus()
