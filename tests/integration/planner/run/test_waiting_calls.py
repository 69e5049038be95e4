from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from ipc.events import WarningEvent
from ipc.sink import MemorySink
from planner.run.control import PlanControl
from planner.run.step_runner import DispatchOptions
from planner.run.watchdog import Watchdog
from planner.state.outcome import RunResult
from subagents.step.local_executor import LocalExecutor
from tests.fakes.clock import ManualClock
from tests.fakes.model_server import ModelServer, Reply
from tests.fakes.steps import StepBench
from tests.unit.planner.plan_bench import Bench, plan_of, statuses
from vibe.core.config.models import BackendKind, ModelConfig, ProviderConfig, VibeConfig
from vibe.core.llm.announcing import WAIT, WAITED
from vibe.core.llm.factory import ModelCatalog

IDLE_SECONDS = 10.0


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as served:
        yield served


@dataclass
class Watched:
    """A plan of one step whose agent calls a real server, with the watchdog that notices when it is idle."""

    home: Path
    server: ModelServer

    def __post_init__(self) -> None:
        provider = ProviderConfig(
            name="acme",
            backend=BackendKind.GENERIC,
            api_base=self.server.api_base,
            api_key_env_var="",
            max_concurrency=1,
        )
        config = VibeConfig(providers=(provider,), models=(ModelConfig(name="m", provider="acme"),), active_model="m")
        self.models = ModelCatalog(config, {})
        self.clock = ManualClock()
        self.memory = MemorySink()
        self.watchdog = Watchdog(self.memory, self.clock)

    async def run(self, meanwhile: Callable[[], Coroutine[Any, Any, None]]) -> RunResult:
        """Run the plan, with ``meanwhile`` in a task beside it."""
        steps = StepBench(home=self.home / "bench")
        executor = LocalExecutor(
            replace(steps.context, models=self.models, default_model="m", sink=self.watchdog), steps.step_folder
        )
        plan = plan_of({"a": {"idle_seconds": IDLE_SECONDS, "max_turns": 3}})
        bench = Bench(self.home, plan, options=DispatchOptions(watchdog=self.watchdog))

        async def beside(control: PlanControl) -> None:
            del control
            await meanwhile()

        try:
            return await bench.run(executor, beside, clock=self.clock)
        finally:
            await self.models.aclose()

    async def heard(self, code: str) -> WarningEvent:
        """Wait for the first warning with this code, and return it."""
        while True:
            for event in self.memory.events:
                if isinstance(event, WarningEvent) and event.code == code:
                    return event
            await anyio.sleep(0.01)


async def test_a_step_that_waits_for_its_turn_at_the_provider_is_not_idle(tmp_path: Path, server: ModelServer) -> None:
    server.enqueue(Reply(text="done"))
    watched = Watched(tmp_path, server)
    async with AsyncExitStack() as turn:
        await turn.enter_async_context(watched.models.limiter("acme").slot())

        async def wait_long() -> None:
            await watched.heard(WAIT)
            watched.clock.advance(100 * IDLE_SECONDS)
            await anyio.wait_all_tasks_blocked()
            await turn.aclose()

        outcome = await watched.run(wait_long)

    assert statuses(outcome) == {"a": "completed"}
    assert "waits for its turn at provider 'acme'" in (await watched.heard(WAIT)).message
    assert "had its turn" in (await watched.heard(WAITED)).message


async def test_once_it_has_its_turn_silence_counts_again(tmp_path: Path, server: ModelServer) -> None:
    server.enqueue(Reply(text="done", silent_after=0))
    watched = Watched(tmp_path, server)
    async with AsyncExitStack() as turn:
        await turn.enter_async_context(watched.models.limiter("acme").slot())

        async def be_silent() -> None:
            await watched.heard(WAIT)
            await turn.aclose()
            await watched.heard(WAITED)
            watched.clock.advance(IDLE_SECONDS)

        outcome = await watched.run(be_silent)

    assert (statuses(outcome), outcome.steps[0].reason) == ({"a": "failed"}, "idle")


async def test_a_pause_the_provider_asked_for_is_not_idle(tmp_path: Path, server: ModelServer) -> None:
    server.enqueue(Reply(status=429, body="{}", headers={"Retry-After": "1"}), Reply(text="done"))
    watched = Watched(tmp_path, server)

    async def wait_it_out() -> None:
        wait = (await watched.heard("model.retry")).wait_seconds
        assert wait is not None
        assert wait >= 1
        watched.clock.advance(IDLE_SECONDS + wait / 2)

    outcome = await watched.run(wait_it_out)

    assert statuses(outcome) == {"a": "completed"}
