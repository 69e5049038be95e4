"""Takes a planner's structured output, a plan or operations on one, through a schema and further checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from ipc.errors import is_deep
from planner.author.output_repair import RepairedPlan, fitted, json_in, mended, repaired_plan
from planner.plan.diagnostics import PlanInvalidError
from planner.plan.model import Decision, Dependency, Option, Plan, Step
from planner.plan.operations import Operation, read_operations
from vibe.core.modes import ExecutionMode
from vibe.core.schemas import closed_object, map_schema
from vibe.core.tools.hand_in import MAX_DEPTH, HandIn

PLAN_TOOL = "hand_in_plan"
SMALL_PLAN_STEPS = 4
MAX_REFUSALS = 3
"""The number of unusable values after which a planner has failed."""

_PLAN_FIELDS = ("context", "steps", "decisions", "max_parallel_steps")
_STEP_FIELDS = (
    *("id", "title", "mode", "prompt", "command", "depends_on", "for_each", "decision", "when", "verify"),
    *("output_schema", "writes", "workspace", "max_tokens", "max_turns", "retries", "on_failure", "side_effects"),
)
ADDED_STEP_FIELDS = (
    *("id", "title", "mode", "prompt", "command", "depends_on", "verify", "output_schema"),
    *("writes", "max_tokens", "max_turns", "timeout_seconds", "retries"),
)
CHANGED_FIELDS = (
    *("title", "prompt", "mode", "verify", "writes"),
    *("max_tokens", "max_turns", "timeout_seconds", "retries"),
)
_WRAPPERS = ("plan", "value")
"""Fields into which some models put a whole plan."""
_NOT_WRITTEN = ("version", "summary")
"""Fields that some models add and that say nothing about the plan."""
_NOISE = frozenset({"pattern", "title", "default", "$schema"})
"""Parts of a schema that don't help a model: ids are repaired anyway, and the descriptions say the rest."""


class Offer(HandIn):
    """A hand-in that gives up after ``tries`` refusals, or never if that is None."""

    refusals = 0
    tries: int | None = MAX_REFUSALS

    @property
    def given_up(self) -> bool:
        """True once no further value is taken."""
        return self.tries is not None and self.refusals >= self.tries

    requested = given_up
    """Stops the agent, whose ``StopSignal`` the offer is."""

    def offer(self, value: Any, summary: str = "") -> str | None:
        """Take a value, or return everything that is wrong with it and how many tries are left; blocks."""
        problem = super().offer(value, summary)
        if problem is None:
            return None
        self.refusals += 1
        if self.tries is None:
            return problem
        left = self.tries - self.refusals
        return f"{problem}\n{left} more {'try' if left == 1 else 'tries'}."


class PlanOffer(Offer):
    """The hand-in of a plan; once one was accepted, ``plan`` holds it, with ``metadata``.

    Its goal is the one given, or the plan's own if the schema has a goal. ``before`` is the document that the plan
    replaces: it supplies the parts of a plan, and of steps with the same id, that planners do not write. A plan has to
    fit ``schema``.
    """

    plan: RepairedPlan | None = None

    def __init__(
        self,
        goal: str,
        metadata: Mapping[str, Any],
        before: Mapping[str, Any] | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            schema=schema or plan_schema(),
            name=PLAN_TOOL,
            description="Hand in the plan. This ends your work.",
            check=self._take,
        )
        self._goal = goal
        self._metadata = metadata
        self._before = before or {}
        self._repairs: tuple[str, ...] = ()

    def offer(self, value: Any, summary: str = "") -> str | None:
        """Take a plan in any of the forms that models use, or return everything that is wrong with it; blocks."""
        value = plan_in(value)
        if isinstance(value, dict) and not is_deep(cast("object", value), MAX_DEPTH):
            value = {"goal": self._goal, **cast("dict[str, Any]", value)}
            if "goal" not in self.schema["properties"]:
                del value["goal"]
            value, self._repairs = mended(value, self.schema)
        return super().offer(value, summary)

    def _take(self, value: Any) -> str | None:
        try:
            value = _with_unwritten_parts(value, self._before)
            goal = value.get("goal", self._goal)
            self.plan = repaired_plan(value, goal=goal, metadata=self._metadata, repairs=self._repairs)
        except PlanInvalidError as error:
            return str(error)
        return None


def plan_in(value: Any) -> Any:
    """Return the plan that a model meant, even if it came as JSON text, inside another field, or as a list of steps."""
    if isinstance(value, str):
        value = json_in(value) or value
    if isinstance(value, list):
        return {"steps": cast("list[Any]", value)}
    if not isinstance(value, dict):
        return value
    given = cast("dict[str, Any]", value)
    fields = {name: one for name, one in given.items() if name not in _NOT_WRITTEN}
    wrapper = next((name for name in _WRAPPERS if name in fields and "steps" not in fields), None)
    if wrapper is None:
        return fields
    inner = plan_in(fields.pop(wrapper))
    return {**fields, **cast("dict[str, Any]", inner)} if isinstance(inner, dict) else inner


def _with_unwritten_parts(value: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plan with the parts that planners do not write added from the document before it."""
    known = {step["id"]: step for step in cast("Sequence[Mapping[str, Any]]", before.get("steps", ()))}
    steps = [
        {**_without(known.get(str(step.get("id")), {}), _STEP_FIELDS), **step}
        for step in cast("Sequence[Mapping[str, Any]]", value["steps"])
    ]
    return {**_without(before, (*_PLAN_FIELDS, "version", "goal", "metadata")), **value, "steps": steps}


def _without(document: Mapping[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in fields}


class RevisionOffer(Offer):
    """The hand-in of operations on a plan; ``operations`` holds them once they were accepted.

    ``check`` returns the operations to carry out, or raises a PlanInvalidError that says what is wrong.
    """

    operations: tuple[Operation, ...] | None = None

    def __init__(self, check: Callable[[Sequence[Operation]], tuple[Operation, ...]]) -> None:
        super().__init__(
            schema=revision_schema(),
            name="hand_in_revision",
            description="Hand in the operations on the plan, or none and why. This ends your work.",
            check=self._take,
        )
        self._finish = check

    def offer(self, value: Any, summary: str = "") -> str | None:
        """Take operations, put into the shape of the schema, or return everything that is wrong with them; blocks."""
        is_bounded = not is_deep(value, MAX_DEPTH)
        return super().offer(fitted(value, self.schema, self.schema["$defs"]) if is_bounded else value, summary)

    @property
    def reason(self) -> str:
        """The reason for the operations, in the planner's words."""
        return str(self.value["reason"]) if self.accepted else ""

    def _take(self, value: Any) -> str | None:
        try:
            self.operations = self._finish(read_operations(value["operations"]))
        except PlanInvalidError as error:
            return str(error)
        return None


def plan_schema(*, with_goal: bool = False) -> dict[str, Any]:
    """Return the schema of the part of the plan format that a planner writes, without what is repaired anyway."""
    whole = Plan.model_json_schema()
    definitions = whole["$defs"]
    return {
        **_object(whole, ("goal", *_PLAN_FIELDS) if with_goal else _PLAN_FIELDS),
        "$defs": {
            "Step": _object(definitions["Step"], _STEP_FIELDS),
            **{
                model.__name__: _object(definitions[model.__name__], tuple(model.model_fields))
                for model in (Dependency, Decision, Option)
            },
            "ForEach": _object(definitions["ForEach"], ("in", "at", "key", "enough")),
            "ExecutionMode": _plain(definitions["ExecutionMode"]),
        },
    }


def small_plan_schema() -> dict[str, Any]:
    """Return the schema of a plan of few steps with only the fields that every step needs, for small models.

    Whatever fits the schema is a valid plan, since a step can depend only on those before it. Bounds on lengths stop a
    model that repeats itself.
    """
    modes = [mode.value for mode in ExecutionMode if mode is not ExecutionMode.RUN]
    ids = [f"s{number}" for number in range(1, SMALL_PLAN_STEPS + 1)]
    steps = {
        step_id: closed_object({
            "id": {"const": step_id},
            "title": {"type": "string", "minLength": 3, "maxLength": 80},
            "mode": {"enum": modes},
            "prompt": {"type": "string", "minLength": 10, "maxLength": 300},
            "depends_on": _some_of(ids[:before]),
        })
        for before, step_id in enumerate(ids)
    }
    # One schema for each length: grammars made from schemas take ``prefixItems`` as a list of exactly that length.
    plans = [
        {
            "type": "array",
            "prefixItems": [{"$ref": f"#/$defs/{step_id}"} for step_id in ids[:length]],
            "minItems": length,
            "maxItems": length,
        }
        for length in range(1, SMALL_PLAN_STEPS + 1)
    ]
    return {**closed_object({"steps": {"anyOf": plans}}), "$defs": steps}


def _some_of(ids: Sequence[str]) -> dict[str, Any]:
    if not ids:
        return {"const": []}
    return {"type": "array", "items": {"enum": list(ids)}, "maxItems": len(ids)}


def revision_schema() -> dict[str, Any]:
    """Return the schema of the operations that a planner writes, with the reason for them."""
    whole = Step.model_json_schema()
    dependency = _object(whole["$defs"]["Dependency"], tuple(Dependency.model_fields))
    changes: dict[str, Any] = {**_object(whole, CHANGED_FIELDS), "required": [], "minProperties": 1}
    text = {"type": "string"}
    operations = [
        _operation("add_step", {"step": {"$ref": "#/$defs/Step"}}),
        _operation("remove_step", {"id": text}),
        _operation("update_step", {"id": text, "changes": changes}),
        _operation("add_edge", {"step": text, "depends_on": {"$ref": "#/$defs/Dependency"}}),
        _operation("remove_edge", {"step": text, "depends_on": text}),
    ]
    reason = {"type": "string", "description": "What was wrong, or is asked for, and what the operations do about it."}
    return {
        **closed_object({"operations": {"type": "array", "items": {"anyOf": operations}}, "reason": reason}),
        "$defs": {
            "Step": _object(whole, ADDED_STEP_FIELDS),
            "Dependency": dependency,
            "ExecutionMode": _plain(whole["$defs"]["ExecutionMode"]),
        },
    }


def _operation(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    return closed_object({"op": {"const": name}, **fields})


def _object(schema: Mapping[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    """Return the schema of an object with only these fields and their descriptions."""
    given = schema["properties"]
    properties = {name: {**_plain(given[name]), "description": given[name]["description"]} for name in fields}
    required = [name for name in schema.get("required", ()) if name in fields]
    return {**closed_object(properties), "required": required}


def _plain(schema: Any) -> Any:
    return map_schema(schema, lambda table: {key: value for key, value in table.items() if key not in _NOISE})
