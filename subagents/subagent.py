"""SubAgent: one step's agent, with its own history, tools, budget and tagged events."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from ipc.events import SubAgentFinishedEvent, SubAgentStartedEvent, WarningEvent
from ipc.sink import EventSink, TaggingSink
from subagents.budget import Account, Limits
from subagents.tool_policy import step_tools
from vibe.core.agent_loop import ActResult, AgentLoop
from vibe.core.agents.profiles import agent_profile
from vibe.core.config.models import ModelConfig
from vibe.core.llm.factory import ModelCatalog
from vibe.core.modes import MODE_CATALOG, ExecutionMode
from vibe.core.session.transcript import Transcript
from vibe.core.stop import StopSignal
from vibe.core.system_prompt import PromptParts, build_system_prompt
from vibe.core.tools.executor import Approvals, ToolExecutor
from vibe.core.tools.manager import ToolManager
from vibe.core.tools.workspace import Workspace
from vibe.core.turn import AgentKit


@dataclass(frozen=True, slots=True, kw_only=True)
class SubAgentConfig:
    """One subagent's orders and limits. Tokens are prompt plus completion over all turns, price in USD.

    ``agent`` names a profile whose tools bound the step's.
    """

    step_id: str
    title: str
    mode: ExecutionMode = ExecutionMode.CODE
    allowed_tools: tuple[str, ...] | None = None
    denied_tools: tuple[str, ...] = ()
    max_tokens: int = 50_000
    max_turns: int = 10
    max_price: float | None = None
    agent: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What all subagents of a run share.

    ``default_model`` is for those that name none (None: the configured one). ``account`` is the plan's; ``environ`` is
    for the processes they start.
    """

    models: ModelCatalog
    default_model: str | None = None
    tools: ToolManager
    workspace: Workspace
    approvals: Approvals
    sink: EventSink
    account: Account
    base_prompt: str
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    clock: Callable[[], float] = time.monotonic


SubAgentResult = ActResult
"""What a subagent came to: an ``ActResult`` over its whole conversation."""


class SubAgent:
    """Does one step in isolation.

    ``conversation`` grows as it works; one that has begun already is gone on with. ``output_dir`` keeps the tool
    outputs that are too long for it.
    """

    def __init__(
        self,
        config: SubAgentConfig,
        surroundings: Surroundings,
        conversation: Transcript,
        output_dir: Path | None = None,
    ) -> None:
        self.subagent_id = uuid4().hex
        self.config = config
        self.conversation = conversation
        self._output_dir = output_dir
        self._around = surroundings
        self._sink = TaggingSink(surroundings.sink, subagent_id=self.subagent_id, subagent_step_id=config.step_id)
        self._model = self._resolve_model()
        self._tools = self._choose_tools()
        self._account = surroundings.account.open(
            f"step {config.step_id!r}",
            Limits(max_tokens=config.max_tokens, max_price=config.max_price),
            spent=self.conversation.usage,
            cost_usd=self.conversation.cost_usd,
        )
        self._loop = AgentLoop(self._kit(), max_turns=config.max_turns)
        self._started = surroundings.clock()

    async def execute(self, prompt: str, stop: StopSignal | None = None) -> SubAgentResult:
        """Do the step, or go on with it where its conversation was cut off."""
        self._started = self._around.clock()
        self._announce_start()
        if not self.conversation.messages:
            return await self._loop.act(prompt, stop)
        if self.conversation.dropped_bytes:
            dropped = f"{self.conversation.dropped_bytes} bytes of a torn message were dropped from the conversation"
            self._sink.publish(WarningEvent(code="transcript.torn", message=dropped))
        return await self._loop.resume(stop)

    async def continue_with(self, prompt: str, stop: StopSignal | None = None) -> SubAgentResult:
        """Take another prompt in the same conversation, after ``execute``."""
        return await self._loop.act(prompt, stop)

    def finish(self, outcome: str, reason: str | None) -> None:
        """Announce the end; the caller knows the checks' verdict, the conversation does not."""
        self._sink.publish(
            SubAgentFinishedEvent(
                outcome=outcome,
                reason=reason,
                tokens=self.conversation.usage.total_tokens,
                turns=self.conversation.turns,
                duration_s=self._around.clock() - self._started,
                cost_usd=self.conversation.cost_usd,
            )
        )

    def _choose_tools(self) -> ToolManager:
        """What the step may use of what its agent profile has."""
        config, tools = self.config, self._around.tools
        if config.agent is not None:
            tools = tools.filtered(agent_profile(config.agent).tools)
        patterns = step_tools(config.mode, config.allowed_tools, config.denied_tools)
        return tools.filtered(patterns.allowed, patterns.denied)

    def _resolve_model(self) -> ModelConfig:
        """The step's model, with its prices where a limit depends on them."""
        models, alias = self._around.models, self.config.model or self._around.default_model
        priced = self.config.max_price is not None or self._around.account.has_price_limit
        return models.resolve_priced(alias) if priced else models.resolve(alias)

    def _kit(self) -> AgentKit:
        around = self._around
        return AgentKit(
            model=self._model,
            backend=around.models.backend(self._model),
            tools=ToolExecutor(
                tools=self._tools,
                workspace=around.workspace,
                approvals=around.approvals,
                sink=self._sink,
                output_dir=self._output_dir,
                environ=around.environ,
            ),
            schemas=self._tools.schemas(),
            system_prompt=build_system_prompt(
                PromptParts(
                    base=around.base_prompt,
                    workspace=around.workspace.root,
                    tool_prompts=tuple(self._tools.prompts().values()),
                    role=MODE_CATALOG[self.config.mode].subagent_guidance,
                )
            ),
            transcript=self.conversation,
            sink=self._sink,
            budget=self._account,
            caller=self.config.step_id,
        )

    def _announce_start(self) -> None:
        self._sink.publish(
            SubAgentStartedEvent(
                title=self.config.title,
                mode=self.config.mode.value,
                model=self._model.key,
                tools=tuple(schema.name for schema in self._tools.schemas()),
                max_tokens=self.config.max_tokens,
                max_turns=self.config.max_turns,
            )
        )
