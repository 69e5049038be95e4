"""task: gives work to a subagent, which has a conversation of its own and reports back."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BaseModel, Field, InstanceOf

from vibe.core.messages import Denial, Outcome
from vibe.core.tools.base import BaseTool, BaseToolConfig, BaseToolState, InvokeContext, ToolArgs, ToolError
from vibe.core.tools.permissions import Assessment, match_lists
from vibe.core.tools.ports import SubagentOrder, SubagentReport
from vibe.core.tools.workspace import Workspace
from vibe.system.plain_text import counted, shortened

SUMMARY_LENGTH = 160
"""The most characters of a call's summary."""


class TaskArgs(ToolArgs):
    """The work, and the subagent that does it."""

    task: Annotated[
        str, Field(min_length=1, description="everything it must know: it sees nothing of this conversation")
    ]
    agent: Annotated[str, Field(min_length=1, description="a subagent")] = "explore"


class TaskResult(BaseModel):
    """The subagent's report."""

    report: InstanceOf[SubagentReport]


class TaskConfig(BaseToolConfig):
    """``allowlist`` and ``denylist`` are globs over the names of subagents."""

    allowlist: list[str] = Field(default_factory=lambda: ["explore"])


class Task(BaseTool[TaskArgs, TaskResult, TaskConfig, BaseToolState]):
    """Gives work to subagents. They can change no more than the caller could, so calls run concurrently."""

    description: ClassVar[str] = "Hand a self-contained piece of work to a subagent and get its report."
    read_only: ClassVar[bool] = True

    async def run(self, args: TaskArgs, ctx: InvokeContext) -> TaskResult:
        """Start the subagent and wait for its report.

        Raises:
            ToolError: no subagent can be started.
        """
        if ctx.subagents is None:
            raise ToolError("no subagent can be started here: do the work yourself")
        order = SubagentOrder(task=args.task, agent=args.agent, tool_call_id=ctx.tool_call_id)
        return TaskResult(report=await ctx.subagents.spawn(order))

    def assess(self, args: TaskArgs, workspace: Workspace) -> Assessment:  # noqa: ARG002  the interface
        """Compare the subagent's name with the lists. A lasting approval covers other work for the same subagent."""
        by_lists = match_lists([args.agent], self.config.allowlist, self.config.denylist)
        return Assessment(listed=by_lists, reason=f"it starts the subagent {args.agent}", covers=(args.agent,))

    def summarize(self, args: TaskArgs) -> str:
        """Return the subagent and its work: ``task explore: find the callers of run``."""
        return shortened(f"task {args.agent}: {' '.join(args.task.split())}", SUMMARY_LENGTH)

    def format_result(self, result: TaskResult) -> str:
        """Return the report, followed by the outcome in brackets."""
        report = result.report
        turns = counted(report.turns, "turn")
        if report.outcome is Outcome.COMPLETED:
            return f"{report.response}\n[{report.agent} completed in {turns}]"
        response = f"{report.response}\n" if report.response else ""
        problem = ": ".join(filter(None, (report.outcome.value, report.reason, report.detail)))
        return f"{response}[{report.agent} did not complete ({turns}): {problem}]"

    def files_changed(self, result: TaskResult) -> tuple[str, ...]:
        """Return the files that the subagent changed."""
        return result.report.files_changed

    def denials(self, result: TaskResult) -> tuple[Denial, ...]:
        """Return the calls that the subagent was denied."""
        return result.report.denied
