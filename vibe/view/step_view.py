"""StepView: one step of a plan as an observer sees it."""

from __future__ import annotations

from msgspec import Struct, field

from ipc import events as e
from planner.state.state import REUSED_REASON, StepState
from vibe.view.agent_view import AgentView, Totals
from vibe.view.transcript import Key

FINAL = frozenset({"completed", "failed", "skipped", "cancelled"})
WAITING = frozenset({"pending", "blocked", "needs_decision"})
RUNNING = "in_progress"
MOST_FILES = 1_000


class StepView(Struct, kw_only=True, eq=False):  # noqa: PLR0904  what the plan has of it, and what its agents do
    """One step: ``state`` as the plan has it, and beside it what its agents do. Nothing here is safe to print as it is.

    ``agents`` are all that worked on it, in the order they began; ``current`` is the one that did so last. ``spent`` is
    of all attempts that this view knows, ``budget_used`` of the present agent and those it started. ``replanning``: it
    failed, and a better plan is looked for. ``waits`` says what it waits for though it could start. ``level`` is its
    depth in the outline. Times are in unix seconds.
    """

    key: Key
    state: StepState
    level: int = 0
    started_at: float | None = None
    duration_s: float | None = None
    activity: str = ""
    agents: dict[str, AgentView] = field(default_factory=dict[str, AgentView])
    current: AgentView | None = None
    spent: Totals = field(default_factory=Totals)
    turns: int = 0
    budget_used: int = 0
    max_tokens: int | None = None
    replanning: bool = False
    waits: e.PlanWaitingEvent | None = None
    work: e.WorkDone | None = None
    files: dict[str, None] = field(default_factory=dict[str, None])
    worktree: e.WorktreeEvent | None = None

    @property
    def id(self) -> str:
        """Its id."""
        return self.state.outline.id

    @property
    def title(self) -> str:
        """Its title."""
        return self.state.outline.title

    @property
    def mode(self) -> str:
        """Its mode."""
        return self.state.outline.mode

    @property
    def depends_on(self) -> tuple[str, ...]:
        """The steps it comes after."""
        return self.state.outline.depends_on

    @property
    def status(self) -> str:
        """Its status."""
        return self.state.status.value

    @property
    def attempt(self) -> int:
        """The attempt that runs, has ended or comes next."""
        return self.state.attempt

    @property
    def reason(self) -> str:
        """The reason of its status."""
        return ": ".join(filter(None, (self.state.reason, self.state.detail)))

    @property
    def reused(self) -> bool:
        """Another plan did it."""
        return self.state.reason == REUSED_REASON

    @property
    def merges(self) -> bool:
        """Its changes are merged at its end."""
        return self.state.outline.workspace == "worktree"

    @property
    def summary(self) -> str:
        """The words of its agent on what it did."""
        return "" if self.work is None else self.work.summary

    @property
    def is_asking(self) -> bool:
        """One of its agents waits for a person."""
        return any(agent.requests for agent in self.agents.values())

    def elapsed(self, now: float) -> float | None:
        """Seconds it ran or has been running for; None if it never started in this run."""
        if self.duration_s is not None:
            return self.duration_s
        return None if self.started_at is None else max(0.0, now - self.started_at)

    def doing(self) -> str:
        """Return what goes on in it: a request to a person first, then a running tool, then the model."""
        asking = next((agent for agent in reversed(self.agents.values()) if agent.requests), None)
        if asking is not None:
            return asking.doing()
        busy = self.current
        if busy is None or not busy.open_calls:
            calling = next((agent for agent in reversed(self.agents.values()) if agent.open_calls), None)
            busy = calling or busy
        return (busy.doing() if busy is not None else "") or self.activity

    def move(self, event: e.PlanStepUpdateEvent) -> list[Key]:
        """It changed status; returns the keys of what that changed in its agents."""
        keys = [key for agent in self.agents.values() for key in agent.rest()]
        self.activity, self.current = "", None
        self.replanning, self.waits = False, None
        if event.work is not None:
            self.work = event.work
            self.changed(event.work.files_changed)
        if event.status == RUNNING:
            self.started_at, self.duration_s, self.activity = event.ts, None, "starting"
        elif event.duration_s is not None:
            self.duration_s = event.duration_s
        elif self.started_at is not None and self.duration_s is None:
            self.duration_s = max(0.0, event.ts - self.started_at)
        return keys

    def changed(self, files: tuple[str, ...]) -> None:
        """Files were changed in it."""
        if files and len(self.files) < MOST_FILES:
            self.files.update(dict.fromkeys(files))

    def seen(self, agent: AgentView) -> None:
        """An agent of its does something."""
        if self.current is not agent:
            self.current = agent
            self.agents[agent.id] = agent

    def does(self, activity: str) -> None:
        """Something goes on in it that no agent does."""
        self.activity, self.current = activity, None

    def agent_started(self, agent: AgentView) -> None:
        """Its own agent took it, with a budget of its own."""
        self.max_tokens, self.budget_used, self.turns = agent.max_tokens, 0, 0
        self.replanning = self.status != RUNNING

    def agent_finished(self, agent: AgentView, tokens: int) -> None:
        """Its own agent is done; the step may not be."""
        self.budget_used, self.replanning = tokens, False
        agent.does("its work is being merged" if self.merges else "has answered")
