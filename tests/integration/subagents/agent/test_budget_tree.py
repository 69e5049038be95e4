from __future__ import annotations

import json
import random
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from msgspec.structs import replace

from ipc.events import CompactStartEvent, SubAgentStartedEvent
from subagents.agent.budget import Limits
from subagents.agent.spawner import SpawnPool
from subagents.step.local_executor import LocalExecutor
from tests.fakes.models import MODEL
from tests.fakes.steps import FakeCatalog, StepBench
from tests.fakes.tasks import task_of
from vibe.core.agents.manager import AgentManager, AgentSources
from vibe.core.config.models import SubagentsConfig
from vibe.core.llm.port import Completion, FinishReason, ModelObserver, ModelRequest
from vibe.core.llm.tokens import estimate_messages, estimate_tools
from vibe.core.messages import AssistantMessage, NeverStop, Outcome, ToolCall, Usage

LIMIT = 800_000
ANSWER = 4_000
LOOKS = ("list_dir", {"path": "."}), ("glob", {"pattern": "*.txt"}), ("task", {"task": "look around"})


class GreedyModel:
    """Uses up to twice what it is given, sometimes fails, delegates, and never finishes by itself.

    ``largest`` is the most that can have been reserved for one call.
    """

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._calls = 0
        self._prompt = 0
        self._answer = 0

    @property
    def largest(self) -> int:
        return self._prompt + self._answer

    async def complete(self, request: ModelRequest, observer: ModelObserver) -> Completion:
        """Return some answer after some time."""
        del observer
        self._calls += 1
        for _ in range(self._dice.randint(0, 4)):
            await anyio.lowlevel.checkpoint()
        prompt = estimate_messages(request.messages) + estimate_tools(request.tools)
        given = request.max_tokens or 0
        usage = Usage(int(prompt * self._dice.uniform(0.8, 1.9)), int(given * self._dice.uniform(0.1, 2)), 0, 1)
        self._prompt = max(self._prompt, prompt, usage.prompt_tokens)
        self._answer = max(self._answer, given)
        return Completion(
            message=AssistantMessage("so far", self._tools(request)),
            finish_reason=FinishReason.TOOL_CALLS,
            usage=usage,
            cost_usd=0.0,
        )

    def _tools(self, request: ModelRequest) -> tuple[ToolCall, ...]:
        offered = {tool.name for tool in request.tools}
        name, arguments = self._dice.choice([look for look in LOOKS if look[0] in offered] or [("none", {})])
        unequal = {**arguments, **({"path": f"./{'x/../' * (self._calls % 50)}"} if "path" in arguments else {})}
        return (ToolCall(f"c{self._calls}", name, json.dumps(unequal)),) if offered else ()

    async def aclose(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize("seed", range(3))
async def test_a_tree_of_agents_passes_its_plans_limit_by_no_more_than_one_call(tmp_path: Path, seed: int) -> None:
    bench = StepBench(home=tmp_path, limits=Limits(max_tokens=LIMIT))
    model = GreedyModel(seed)
    agents = await anyio.to_thread.run_sync(AgentManager, AgentSources(user_home=tmp_path))
    catalog = FakeCatalog(
        model, MODEL.model_copy(update={"max_output_tokens": ANSWER, "auto_compact_threshold": 3_500})
    )
    around = replace(
        bench.context,
        models=catalog,
        agents=agents,
        spawning=SpawnPool(agents, SubagentsConfig(max_spawned=60, max_parallel=20)).below,
    )
    executor = LocalExecutor(around, bench.step_folder)
    outcomes: list[Outcome] = []

    async def step(name: str) -> None:
        for attempt in (1, 2):
            task = task_of(name, attempt=attempt, max_turns=40, max_tokens=LIMIT, verify=("true",))
            outcomes.append((await executor.run(task, NeverStop())).outcome)

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(step, f"s{number}")

    spent = bench.account.usage.total_tokens
    assert LIMIT * 0.9 < spent <= LIMIT + model.largest
    assert Outcome.LIMIT in outcomes
    assert len(bench.events(SubAgentStartedEvent)) > len(outcomes)
    assert bench.events(CompactStartEvent) != []
