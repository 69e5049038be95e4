"""plan_run, plan_status, plan_decide and plan_result: plans that go on beside the calls about them."""

from __future__ import annotations

from typing import Any

from anyio import to_thread

from vibe.mcp_server.call_vibe import checked_text, existing_workdir
from vibe.mcp_server.lazy_runtime import LazyRuntime
from vibe.mcp_server.plan_arguments import (
    PlanDecideArguments,
    PlanResultArguments,
    PlanRunArguments,
    PlanStatusArguments,
)
from vibe.mcp_server.tool import Caller, ServedTool, ToolAnswer


class PlanRunTool(ServedTool):
    """A plan written, or taken as it is, and carried out."""

    name = "plan_run"
    title = "Run a plan"
    description = (
        "Have a larger task done by several agents of vibe: a plan of steps is written for the goal (or given), and "
        "carried out in the background, side by side where it can be. Returns its id at once; plan_status says how it "
        "stands, plan_decide answers what it waits for, plan_result tells what it came to."
    )
    arguments = PlanRunArguments

    def __init__(self, runtime: LazyRuntime) -> None:
        self._runtime = runtime

    async def call(self, given: Any, caller: Caller) -> ToolAnswer:
        """Begin it, wait for it if asked to, and say how it stands; see ``ServedTool.call``."""
        args: PlanRunArguments = given
        if args.goal is not None:
            checked_text("goal", args.goal)
        workdir = None if args.cwd is None else await to_thread.run_sync(existing_workdir, args.cwd)
        plans = await self._runtime.plans()
        from vibe.mcp_server.plan_calls import run_plan  # noqa: PLC0415  loaded with the runtime

        return await run_plan(plans, args, workdir, caller)


class PlanStatusTool(ServedTool):
    """The status of a plan."""

    name = "plan_status"
    title = "Status of a plan"
    description = (
        "Say how a plan stands: how many of its steps are done, what each is at, and what it waits for. With wait_ms "
        "it answers once the plan has ended or waits for somebody."
    )
    arguments = PlanStatusArguments
    only_reads = True

    def __init__(self, runtime: LazyRuntime) -> None:
        self._runtime = runtime

    async def call(self, given: Any, caller: Caller) -> ToolAnswer:
        """Wait if asked to, and say it; see ``ServedTool.call``."""
        args: PlanStatusArguments = given
        plans = await self._runtime.plans()
        from vibe.mcp_server.plan_calls import plan_status  # noqa: PLC0415  loaded with the runtime

        return await plan_status(plans, args, caller)


class PlanDecideTool(ServedTool):
    """Answers to what a plan waits for."""

    name = "plan_decide"
    title = "Decide for a plan"
    description = (
        "Answer something a plan waits for, by its request_id: an approval of a call or of the plan's commands, a "
        "decision, an agent's question. Or stop the plan. Ask the person you work for, unless they said how to decide."
    )
    arguments = PlanDecideArguments

    def __init__(self, runtime: LazyRuntime) -> None:
        self._runtime = runtime

    async def call(self, given: Any, caller: Caller) -> ToolAnswer:  # noqa: ARG002  nobody else is asked
        """Give the answer, and say how the plan stands; see ``ServedTool.call``."""
        args: PlanDecideArguments = given
        plans = await self._runtime.plans()
        from vibe.mcp_server.plan_calls import decide_for_plan  # noqa: PLC0415  loaded with the runtime

        return await decide_for_plan(plans, args)


class PlanResultTool(ServedTool):
    """The result of a plan."""

    name = "plan_result"
    title = "Result of a plan"
    description = (
        "Tell what a plan came to: its outcome, what each step says of its work, the files changed, what it took. Of a "
        "plan that still runs: what there is so far."
    )
    arguments = PlanResultArguments
    only_reads = True

    def __init__(self, runtime: LazyRuntime) -> None:
        self._runtime = runtime

    async def call(self, given: Any, caller: Caller) -> ToolAnswer:  # noqa: ARG002  nobody is asked
        """Tell it; see ``ServedTool.call``."""
        args: PlanResultArguments = given
        plans = await self._runtime.plans()
        from vibe.mcp_server.plan_calls import result_of  # noqa: PLC0415  loaded with the runtime

        return await result_of(plans, args.plan_id, args.max_response_chars)
