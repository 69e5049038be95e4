"""An agent around a fake model, with real tools, a real workspace and events kept in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import structs

from ipc.events import Event
from ipc.sink import MemorySink
from subagents.agent.budget import Account, Limits
from tests.fakes.models import MODEL, Endless, FakeModel
from vibe.core.agent_loop import AgentLoop
from vibe.core.config.models import ModelConfig, VibeConfig
from vibe.core.instructions.system_prompt import PromptLibrary
from vibe.core.llm.errors import ModelError
from vibe.core.llm.port import Completion
from vibe.core.middleware.port import Middleware
from vibe.core.middleware.reminders import todo_reminders
from vibe.core.session.folder import Transcript
from vibe.core.session.write_turn import WriteTurn
from vibe.core.tools.base import InvokeContext
from vibe.core.tools.discovery import ToolSources
from vibe.core.tools.executor import ToolExecutor
from vibe.core.tools.gate import Approvals
from vibe.core.tools.guidance import CallGuidance
from vibe.core.tools.hand_in import HandIn
from vibe.core.tools.manager import ToolManager
from vibe.core.tools.permissions import ApprovalMode
from vibe.core.tools.workspace import Workspace
from vibe.core.turn import SUMMARY_PROMPT, AgentKit

BUILTIN_TOOLS = ToolManager(ToolSources(root=Path(__file__).parent), VibeConfig())
"""The built-in tools, found once because finding them reads files. Each agent gets a view of its own."""


@dataclass(kw_only=True)
class Bench:
    """One agent under test. ``mode`` is how far it may go without approval, as nobody is there to give it."""

    root: Path
    answers: Iterable[Completion | Endless | ModelError]
    mode: ApprovalMode = ApprovalMode.ALL
    limits: Limits = field(default_factory=Limits)
    max_turns: int | None = None
    transcript: Transcript = field(default_factory=Transcript)
    model_config: ModelConfig = MODEL
    middleware: tuple[Middleware, ...] = ()
    hand_in: HandIn | None = None
    keeps_partial: bool = False
    turn: WriteTurn | None = None
    guidance: CallGuidance | None = None

    def __post_init__(self) -> None:
        self.sink = MemorySink()
        self.model = FakeModel(self.answers)
        self.account = Account("this run", structs.replace(self.limits, max_turns=self.max_turns))
        tools = BUILTIN_TOOLS.filtered(None)
        if self.hand_in is not None:
            tools = tools.with_tool(self.hand_in.tool_class())
        self.kit = AgentKit(
            model=self.model_config,
            backend=self.model,
            tools=ToolExecutor(
                tools=tools,
                context=InvokeContext(workspace=Workspace(root=self.root), environ={"PATH": "/usr/bin:/bin"}),
                approvals=Approvals(self.mode),
                sink=self.sink,
                guidance=self.guidance,
                turns=self.turn and self.turn.held,
            ),
            offered=tools.schemas,
            system_prompt="You are a test.",
            transcript=self.transcript,
            sink=self.sink,
            budget=self.account,
            middleware=self.middleware,
            reminders=todo_reminders(tools, self.transcript),
            summarising=lambda: PromptLibrary().load(SUMMARY_PROMPT),
            hand_in=self.hand_in,
            keeps_partial=self.keeps_partial,
        )
        self.loop = AgentLoop(self.kit)

    def events(self, kind: type[Event]) -> list[Event]:
        """Return the published events of one kind."""
        return [event for event in self.sink.events if isinstance(event, kind)]
