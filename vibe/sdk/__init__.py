"""vibe as a library: ``from vibe.sdk import query, Session``.

The names listed in ``__all__`` and their parameters are public. Within a major version they are only added to, and
everything else is private. Names that need the whole engine are imported on first use.
"""

# ruff: noqa: E402  the check for packages that shadow ours must run before anything of ours is imported

from __future__ import annotations

import logging
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

for _name in ("ipc", "planner", "subagents"):
    _found = find_spec(_name)
    if _found and _found.origin and Path(__file__).parents[2] not in Path(_found.origin).parents:
        raise ImportError(f"vibe has a package {_name!r} of its own, but {_found.origin} stands before it: rename that")

from ipc.events import ApprovalRequestEvent as ApprovalRequest
from vibe.core.messages import Outcome
from vibe.core.tools.ports import ApprovalAnswer as Approval
from vibe.sdk.answer import Answer, NotCompleted, PlanResult
from vibe.sdk.options import Home
from vibe.sdk.run import Run
from vibe.sdk.session import Session, make_plan, query, resume_plan, run_plan
from vibe.system.errors import EnvironmentFailure, UsageError, VibeError

if TYPE_CHECKING:
    from planner.plan.model import Decision, Option, Plan, PlanBudget, Step
    from subagents.executor import StepExecutor, StepResult, StepTask
    from vibe.core.tools.base import InvokeContext
    from vibe.core.tools.errors import ToolError
    from vibe.sdk.function_tool import Tool, tool

__all__ = [
    "Answer",
    "Approval",
    "ApprovalRequest",
    "Decision",
    "EnvironmentFailure",
    "Home",
    "InvokeContext",
    "NotCompleted",
    "Option",
    "Outcome",
    "Plan",
    "PlanBudget",
    "PlanResult",
    "Run",
    "Session",
    "Step",
    "StepExecutor",
    "StepResult",
    "StepTask",
    "Tool",
    "ToolError",
    "UsageError",
    "VibeError",
    "make_plan",
    "query",
    "resume_plan",
    "run_plan",
    "tool",
]

for _name in ("distributed", "ipc", "opentelemetry", "planner", "subagents", "vibe"):
    logging.getLogger(_name).addHandler(logging.NullHandler())

_LATER = MappingProxyType({
    **dict.fromkeys(("Decision", "Option", "Plan", "PlanBudget", "Step"), "planner.plan.model"),
    **dict.fromkeys(("StepExecutor", "StepResult", "StepTask"), "subagents.executor"),
    "InvokeContext": "vibe.core.tools.base",
    "ToolError": "vibe.core.tools.errors",
    **dict.fromkeys(("Tool", "tool"), "vibe.sdk.function_tool"),
})
"""The names that are imported on first use, with their modules."""


if not TYPE_CHECKING:  # with it, a type checker would accept misspelled names

    def __getattr__(name: str) -> Any:
        if name in _LATER:
            return getattr(import_module(_LATER[name]), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
