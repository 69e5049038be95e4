"""HandIn: the tool by which an agent ends its work with a value that fits a schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import msgspec
from anyio import to_thread
from pydantic import model_validator

from ipc.errors import is_deep
from vibe.core.messages import AssistantMessage, Message, ToolMessage
from vibe.core.schemas import closed_object, rooted_at
from vibe.core.tools.base import BaseTool, BaseToolState, TextResult, ToolArgs, ToolClass, ToolError, UnaskedConfig
from vibe.system.errors import UsageError

HAND_IN = "hand_in"
"""The default name of the tool."""
PROPOSE_PLAN = "propose_plan"
"""The tool by which the agent of a conversation proposes a plan to the person."""
MAX_BYTES = 256 * 1024
"""The most bytes of a value, as JSON."""
MAX_DEPTH = 64
"""The most levels of nesting in a value or a schema."""
EXAMPLE = '{"type": "object", "properties": {...}}'
"""A JSON Schema to show in error messages."""
ANSWER_TEXT = (
    "Hand in the answer to the user's prompt, as a value. The user gets this value, not what you say. It ends your "
    "work: call it once all else is done."
)
"""The tool's description for an agent that answers a prompt."""
UNFINISHED = frozenset({"interrupted", "cancelled"})
"""Statuses of calls that were cut off."""

Check = Callable[[Any], str | None]
"""Returns what is wrong with a value, or None."""


class HandInArgs(ToolArgs):
    """``value`` is the result itself; ``summary`` tells its readers in prose what they should know."""

    value: Any
    summary: str = ""

    @model_validator(mode="before")
    @classmethod
    def _whole(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Accept arguments that are the value itself, since some models leave out the outer level."""
        return given if "value" in given or given.keys() <= {"summary"} else {"value": given}


@dataclass(slots=True, kw_only=True, eq=False)
class HandIn:
    """One agent's duty to end with a value, and the value once it is ``accepted``.

    ``schema`` describes the tool's ``value`` argument. A value must fit it, be JSON of at most ``max_bytes``, and pass
    ``check``, which returns what is wrong or None. ``check`` runs in a thread and may be slow. The model is told every
    problem. Each object serves a single agent.
    """

    schema: Mapping[str, Any]
    name: str = HAND_IN
    description: str = "Hand in the result of your work. This ends it."
    check: Check | None = None
    max_bytes: int = MAX_BYTES
    accepted: bool = False
    value: Any = None
    summary: str = ""
    last_problem: str = ""

    @classmethod
    def of_prompt(cls, schema: object, named: str, check: Check | None = None) -> HandIn:
        """Return the duty to answer a prompt with a value that fits the user's schema.

        Errors call the schema ``named``.

        Raises:
            UsageError: it is not a JSON Schema.
        """
        if not isinstance(schema, dict):
            raise UsageError(f"{named}: not a JSON Schema: write an object, such as {EXAMPLE}")
        from vibe.core.tools.json_schema import schema_problems

        wanted = cast("dict[str, Any]", schema)
        deep = is_deep(wanted, MAX_DEPTH)
        problems = [f"is nested deeper than {MAX_DEPTH} levels"] if deep else [*map(str, schema_problems(wanted))]
        if problems:
            raise UsageError(f"{named}: {'; '.join(problems)}")
        return cls(schema=wanted, description=ANSWER_TEXT, check=check)

    def renew(self) -> None:
        """Forget the value, because a new prompt needs a new one."""
        self.accepted, self.value, self.summary, self.last_problem = False, None, "", ""

    def offer(self, value: Any, summary: str = "") -> str | None:
        """Accept a value, or return everything that is wrong with it. Blocks."""
        from vibe.core.tools.json_schema import value_problems

        problem = self._size_problem(value)
        if problem is None:
            problem = "; ".join(value_problems(self.schema, value)) or None
        if problem is None and self.check is not None:
            problem = self.check(value)
        if problem is None:
            self.accepted, self.value, self.summary, self.last_problem = True, value, summary.strip(), ""
        else:
            self.last_problem = problem
        return problem

    def restore(self, messages: Sequence[Message]) -> bool:
        """Take the value from the last turn of a conversation again, and return whether that turn handed one in."""
        results: dict[str, ToolMessage] = {}
        for message in reversed(messages):
            if isinstance(message, ToolMessage):
                results[message.tool_call_id] = message
            elif isinstance(message, AssistantMessage):
                return self._restore_from(message, results)
            else:
                return False
        return False

    def tool_class(self) -> ToolClass:
        """Return the tool class to give to the agent."""
        wanted = rooted_at(self.schema, "#/properties/value")
        summary = {"type": "string", "description": "What whoever uses the value should know, in a few lines."}
        parameters = {**closed_object({"value": wanted, "summary": summary}), "required": ["value"]}
        members = {"description": self.description, "duty": self, "parameters": parameters, "__module__": __name__}
        return cast("ToolClass", type("HandInTool", (_HandInTool,), members))

    def _restore_from(self, answer: AssistantMessage, results: Mapping[str, ToolMessage]) -> bool:
        if any(result.status in UNFINISHED for result in results.values()):
            return False  # The other calls of that answer must be dealt with first.
        for call in answer.tool_calls:
            result = results.get(call.id)
            if call.name != self.name or result is None or result.status != "ok":
                continue
            given = HandInArgs.model_validate(json.loads(call.arguments))
            return self.offer(given.value, given.summary) is None
        return False

    def _size_problem(self, value: Any) -> str | None:
        if is_deep(value, MAX_DEPTH):
            return f"value: is nested deeper than {MAX_DEPTH} levels"
        try:
            encoded = msgspec.json.encode(value)
            survives = msgspec.json.decode(encoded) == value
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            return f"value: is not JSON that can be kept: {error}"
        if not survives:
            return "value: holds a number that can't be kept in JSON: it is too large, infinite or no number (NaN)"
        if len(encoded) > self.max_bytes:
            size = f"{len(encoded)} bytes long, {self.max_bytes} at most"
            return f"value: is {size}; write what is long to a file and name that"
        return None


class _HandInTool(BaseTool[HandInArgs, TextResult, UnaskedConfig, BaseToolState]):
    """The base of hand-in tools. ``HandIn.tool_class`` derives one for each duty."""

    ends_work: ClassVar[bool] = True
    changes_files: ClassVar[bool] = False

    duty: ClassVar[HandIn]
    parameters: ClassVar[dict[str, Any]]

    async def run(self, args: HandInArgs) -> TextResult:
        """Hand the value in.

        Raises:
            ToolError: it does not fit; the message names every problem.
        """
        problem = await to_thread.run_sync(self.duty.offer, args.value, args.summary)
        if problem is not None:
            raise ToolError(f"{self.get_name()}: not accepted: {problem}")
        return TextResult(text="Accepted: the work is done.")

    @classmethod
    def get_name(cls) -> str:
        """Return the duty's name."""
        return cls.duty.name

    @classmethod
    def get_parameters(cls) -> dict[str, Any]:
        """Return the schema with the duty's own as the argument ``value``."""
        return cls.parameters

    def summarize(self, args: HandInArgs) -> str:
        """Return the name, followed by as much of the summary as fits on one line."""
        return self.named(args.summary)
