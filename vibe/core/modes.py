"""The catalog of a step's execution modes, shared by the planner, the subagents and every front end."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Literal

from msgspec import Struct


class ExecutionMode(StrEnum):
    """The kind of work a step does."""

    CODE = "code"
    TEST = "test"
    RESEARCH = "research"
    DESIGN = "design"
    DOCS = "docs"
    RUN = "run"


ModeName = Literal["code", "test", "research", "design", "docs", "run"]
READ_TOOLS = ("read_file", "grep", "glob", "list_dir", "todo", "task", "skill")
WRITE_TOOLS = ("write_file", "search_replace")
ONLY_READING = frozenset({*READ_TOOLS, "ask_user_question", "web_fetch"})
"""The names of the built-in tools marked ``read_only``, for planning code that has no tools loaded."""


class ModeGuidance(Struct, frozen=True, kw_only=True):
    """Describes a mode to the planner, to the agent that works in it and to whoever watches.

    ``default_tools`` are the patterns of tool names that a step in this mode may use unless it names its own.
    """

    title: str
    planner_guidance: str
    subagent_guidance: str
    icon: str
    default_tools: tuple[str, ...]


MODE_CATALOG: Mapping[ExecutionMode, ModeGuidance] = MappingProxyType({
    ExecutionMode.CODE: ModeGuidance(
        title="Implementation Specialist",
        planner_guidance=(
            "Use for a change to source files that one person could review in one sitting. Name the files it may "
            "write and the command that proves it."
        ),
        subagent_guidance=(
            "Read the code you are about to change and follow its conventions. Make the smallest change that does "
            "what the step asks, keep unrelated code as it is, and say which files you changed and why."
        ),
        icon="◆",
        default_tools=("*",),
    ),
    ExecutionMode.TEST: ModeGuidance(
        title="Test Engineer",
        planner_guidance="Use to write tests or to run them. A step that only runs a command needs no prompt.",
        subagent_guidance=(
            "Test the behaviour the step names, edge cases included. Never weaken an existing check to make it pass. "
            "Report what ran, what passed and what failed, with the failing output."
        ),
        icon="◎",
        default_tools=("*",),
    ),
    ExecutionMode.RESEARCH: ModeGuidance(
        title="Research Analyst",
        planner_guidance="Use to find something out before others act on it. It cannot change files.",
        subagent_guidance=(
            "Find the facts the step asks for and cite the file and line of each. You change nothing. Say what you "
            "looked for and did not find."
        ),
        icon="⌕",
        default_tools=READ_TOOLS,
    ),
    ExecutionMode.DESIGN: ModeGuidance(
        title="Software Designer",
        planner_guidance="Use when later steps must agree on an interface or a layout. It cannot change files.",
        subagent_guidance=(
            "Decide on an approach the later steps can follow without asking: names, signatures, files, order. Weigh "
            "at most one alternative. You change nothing."
        ),
        icon="△",
        default_tools=READ_TOOLS,
    ),
    ExecutionMode.DOCS: ModeGuidance(
        title="Documentation Writer",
        planner_guidance="Use to bring documentation in line with what was built.",
        subagent_guidance=(
            "Write for the reader who has the software and not its author. Check every statement and example against "
            "the code, and change documentation only."
        ),
        icon="✎",
        default_tools=(*READ_TOOLS, *WRITE_TOOLS),
    ),
    ExecutionMode.RUN: ModeGuidance(
        title="Operator",
        planner_guidance="Use to run a command or a tool whose result others need.",
        subagent_guidance=(
            "Run what the step asks for, watch it end, and report its exit code and the lines of output that matter. "
            "Do not repair what fails; say what failed."
        ),
        icon="▶",
        default_tools=(*READ_TOOLS, "bash", "background"),
    ),
})
