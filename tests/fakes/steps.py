"""A step's executor around scripted models, with real agents, tools, files and commands."""

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
    """A catalog with one model for everybody."""

    def __init__(self, served: ModelBackend, model: ModelConfig = MODEL) -> None:
        super().__init__(VibeConfig(), {})
        self.served = served
        self.model = model

    def resolve(self, alias: str | None) -> ModelConfig:
        """Return the model, whatever the alias."""
        del alias
        return self.model

    def backend(self, model: ModelConfig) -> ModelBackend:
        """Return the backend that serves every model."""
        del model
        return self.served


@dataclass(kw_only=True)
class StepBench:
    """An executor that works in ``home/work``. Its steps have their folders in ``home/steps``."""

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
            approvals=Approvals(self.mode),
            sink=self.sink,
            account=self.account,
            environ={"PATH": f"{Path(sys.executable).parent}{os.pathsep}/usr/bin{os.pathsep}/bin"},
        )
        self.executor = LocalExecutor(self.context, self.step_folder)

    def step_folder(self, step_id: str) -> Path:
        """Return the folder for a step's conversation, creating it if needed."""
        folder = self.home / "steps" / step_id
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def write(self, name: str, text: str = "") -> Path:
        """Write a file in the workspace and return its path."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    async def run(self, task: StepTask) -> StepResult:
        """Run one attempt that nobody stops."""
        return await self.executor.run(task, NeverStop())

    def again(self, *answers: Completion | ModelError) -> StepBench:
        """Return a bench on the same folders with new answers, as another process would have it."""
        return replace(self, answers=answers)

    def events(self, kind: type[Event]) -> list[Event]:
        """Return the published events of one kind."""
        return [event for event in self.sink.events if isinstance(event, kind)]
