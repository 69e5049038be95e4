"""PlannerController: a plan from its proposal to its end, as the screen has it; loaded with the engine."""

from __future__ import annotations

from io import StringIO

from ipc.events import Event, PlanDecisionEvent, PlanProposedEvent
from vibe.app.plan.decision_prompter import DecisionPrompter
from vibe.app.plan.dispatch import Audience
from vibe.app.plan.drafting import PlanDraft
from vibe.app.plan.run import PlanRun
from vibe.cli.textual_ui.controllers.app_controller import Stage
from vibe.front.event_text import one_line
from vibe.front.plan_summary import write_summary
from vibe.front.slash.plan_talk import PlanTalk, PlanVerdict, VerdictKind
from vibe.view.plan_view import decision_text

GOAL_LENGTH = 200
HEADINGS = {"completed": "Plan completed", "failed": "Plan failed", "cancelled": "Plan cancelled"}


class PlannerController:
    """Has plans proposed and run on a stage; an event sink that hears of proposals and decisions."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._proposed: PlanProposedEvent | None = None

    def talk(self) -> PlanTalk:
        """The plan of the screen's conversation."""
        return PlanTalk(accept=self.accept, audience=self.audience, ended=self.end, begun=self.begin)

    def begin(self, goal: str) -> None:
        """Say that a plan is being written."""
        self._stage.say(f"planning: {one_line(goal, GOAL_LENGTH)} (Esc stops it)")

    def publish(self, event: Event) -> None:
        """Take one event."""
        if isinstance(event, PlanProposedEvent):
            self._proposed = event
        elif isinstance(event, PlanDecisionEvent) and event.selections:
            self._stage.say(decision_text(event))

    async def accept(self, draft: PlanDraft) -> PlanVerdict:
        """Show the last version and return the person's answer; cancelling takes it away."""
        if self._proposed is None:
            raise AssertionError("a draft with a version was announced")
        document = draft.loaded.source_bytes.decode("utf-8", "replace")
        kind, text = await self._stage.asked_about(self._proposed, document)
        return PlanVerdict(VerdictKind(kind), text)

    def audience(self) -> Audience:
        """Return the person as the audience of one run of a plan."""
        decider = DecisionPrompter(self._stage.requests.decider)
        return Audience(
            listeners=[self._stage.store, decider, self],
            approver=self._stage.requests,
            user_input=self._stage.requests.user_input,
            decider=decider,
        )

    def end(self, run: PlanRun) -> None:
        """Show the summary of a run."""
        out = StringIO()
        write_summary(run, out, in_chat=True)
        self._stage.say(f"{HEADINGS.get(run.status.value, 'Plan paused')}\n{out.getvalue().strip()}")
