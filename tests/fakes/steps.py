"""A step's executor around models whose answers are laid out in advance: real agents, tools, files and commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from ipc.events import Event
from ipc.sink import MemorySink
from subagents.agent.budget import Account, Limits
from subagents.agent.run_context import AgentContext, RunContext
from subagents.executor import StepResult, StepTask
from subagents.step.local_executor import LocalExecutor
from tests.fakes.engine import BUILTIN_TOOLS
from tests.fakes.models import MODEL, FakeModel
from vibe.core.config.models import ModelConfig, VibeConfig
from vibe.core.llm.errors import ModelError
from vibe.core.llm.factory import ModelCatalog
from vibe.core.llm.port import Completion, ModelBackend
from vibe.core.messages import NeverStop
from vibe.core.tools.gate import Approvals
from vibe.core.tools.permissions import ApprovalMode
from vibe.core.tools.workspace import Workspace


class FakeCatalog(ModelCatalog):
    """One model for everybody."""

    def __init__(self, served: ModelBackend, model: ModelConfig = MODEL) -> None:
        super().__init__(VibeConfig(), {})
        self.served = served
        self.model = model

    def resolve(self, alias: str | None) -> ModelConfig:
        """The model, whatever it is called."""
        del alias
        return self.model

    def backend(self, model: ModelConfig) -> ModelBackend:
        """What serves it."""
        del model
        return self.served


@dataclass(kw_only=True)
class StepBench:
    """An executor in ``home/work``; its steps have their folders in ``home/steps``."""

    home: Path
    answers: Iterable[Completion | ModelError] = ()
    limits: Limits = field(default_factory=Limits)
    mode: ApprovalMode = ApprovalMode.ALL
    verify_seconds: float = 60.0

    def __post_init__(self) -> None:
        self.root = self.home / "work"
        self.root.mkdir(parents=True, exist_ok=True)
        self.sink = MemorySink()
        self.model = FakeModel(self.answers)
        self.account = Account("the plan", self.limits)
        self.context = AgentContext(
            run=RunContext(base_prompt="You are a test.", verify_seconds=self.verify_seconds),
            models=FakeCatalog(self.model),
            tools=BUILTIN_TOOLS,
            workspace=Workspace(root=self.root),
            approvals=Approvals(mode=self.mode),
            sink=self.sink,
            account=self.account,
            environ={"PATH": f"{Path(sys.executable).parent}{os.pathsep}/usr/bin{os.pathsep}/bin"},
        )
        self.executor = LocalExecutor(self.context, self.step_folder)

    def step_folder(self, step_id: str) -> Path:
        """Where a step keeps its conversation."""
        folder = self.home / "steps" / step_id
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def write(self, name: str, text: str = "") -> Path:
        """A file of the workspace."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    async def run(self, task: StepTask) -> StepResult:
        """One attempt, that nobody stops."""
        return await self.executor.run(task, NeverStop())

    def again(self, *answers: Completion | ModelError) -> StepBench:
        """The same folders in another process."""
        return replace(self, answers=answers)

    def events(self, kind: type[Event]) -> list[Event]:
        """What was announced, of one kind."""
        return [event for event in self.sink.events if isinstance(event, kind)]
