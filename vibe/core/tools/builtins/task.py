"""task: work handed to a subagent, which has a conversation of its own and reports back."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BaseModel, Field

from vibe.core.outcome import Denial, Outcome
from vibe.core.tools.base import BaseTool, BaseToolConfig, BaseToolState, InvokeContext, ToolArgs, ToolError
from vibe.core.tools.permissions import Assessment, listed
from vibe.core.tools.ports import SubagentOrder, SubagentReport
from vibe.core.tools.workspace import Workspace
from vibe.system.plain_text import shortened

SUMMARY_LENGTH = 160


class TaskArgs(ToolArgs):
    """What to do, and who does it."""

    task: Annotated[
        str, Field(min_length=1, description="everything it must know: it sees nothing of this conversation")
    ]
    agent: Annotated[str, Field(min_length=1, description="a subagent")] = "explore"


class TaskResult(BaseModel):
    """What the subagent came to; ``completed`` false: ``problem`` says what ended it."""

    response: str
    turns_used: int
    completed: bool
    agent: str = ""
    problem: str = ""
    files_changed: list[str] = []
    denials: list[tuple[str, str, str, str]] = []


class TaskConfig(BaseToolConfig):
    """``allowlist`` and ``denylist`` are globs over the names of subagents."""

    allowlist: list[str] = Field(default_factory=lambda: ["explore"])


class Task(BaseTool[TaskArgs, TaskResult, TaskConfig, BaseToolState]):
    """Hands work to subagents. It changes no more than its caller could, so calls of it run side by side."""

    description: ClassVar[str] = "Hand a self-contained piece of work to a subagent and get its report."
    read_only: ClassVar[bool] = True

    async def run(self, args: TaskArgs, ctx: InvokeContext) -> TaskResult:
        """Have it done.

        Raises:
            ToolError: no subagent can be started.
        """
        if ctx.subagents is None:
            raise ToolError("no subagent can be started here: do the work yourself")
        order = SubagentOrder(task=args.task, agent=args.agent, tool_call_id=ctx.tool_call_id)
        return _as_result(await ctx.subagents.spawn(order))

    def assess(self, args: TaskArgs, workspace: Workspace) -> Assessment:  # noqa: ARG002  the interface
        """Compare the subagent's name with the lists; a lasting yes covers other work for it."""
        by_lists = listed([args.agent], self.config.allowlist, self.config.denylist)
        return Assessment(listed=by_lists, reason=f"it starts the subagent {args.agent}", covers=(args.agent,))

    def summarize(self, args: TaskArgs) -> str:
        """Return who does what: ``task explore: find the callers of run``."""
        line = f"task {args.agent}: {' '.join(args.task.split())}"
        return shortened(line, SUMMARY_LENGTH)

    def format_result(self, result: TaskResult) -> str:
        """The report, and what is to be known about it."""
        turns = f"{result.turns_used} turn{'' if result.turns_used == 1 else 's'}"
        if result.completed:
            return f"{result.response}\n[{result.agent} completed in {turns}]"
        said = f"{result.response}\n" if result.response else ""
        return f"{said}[{result.agent} did not complete ({turns}): {result.problem}]"

    def files_changed(self, result: TaskResult) -> tuple[str, ...]:
        """Return what the subagent changed."""
        return tuple(result.files_changed)

    def denials(self, result: TaskResult) -> tuple[Denial, ...]:
        """Return what the subagent was not allowed."""
        return tuple(Denial(*denial) for denial in result.denials)


def _as_result(report: SubagentReport) -> TaskResult:
    completed = report.outcome is Outcome.COMPLETED
    problem = "" if completed else ": ".join(filter(None, (report.outcome.value, report.reason, report.detail)))
    return TaskResult(
        response=report.response,
        turns_used=report.turns,
        completed=completed,
        agent=report.agent,
        problem=problem,
        files_changed=list(report.files_changed),
        denials=[(denial.tool, denial.summary, denial.reason, denial.by) for denial in report.denied],
    )
