"""The strict door: a plan file becomes a plan, or every problem in it is reported at once and nothing is run."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from planner.checks import check_document
from planner.dag import Dag
from planner.field_errors import field_problems
from planner.model import FORMAT_VERSION, Plan
from planner.problems import PlanInvalidError, Problem, quoted
from planner.strict_json import MAX_BYTES, JsonRefused, decode, parse


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPlan:
    """A plan that passed: its ``defaults`` written into its steps, its graph, the bytes it was read from, and where."""

    plan: Plan
    dag: Dag
    source_bytes: bytes
    where: str


def load_plan(source: bytes | str, *, where: str) -> LoadedPlan:
    """Check a document and build the plan; ``where`` names it in messages.

    Raises:
        PlanInvalidError: it breaks the format, anywhere; carries all problems.
    """
    try:
        text = decode(source)
        document = _object(parse(text))
    except JsonRefused as error:
        raise PlanInvalidError(where, error.problems) from None
    problems: list[Problem] = []
    plan: Plan | None = None
    try:
        plan = Plan.model_validate_json(text, strict=True)
    except ValidationError as error:
        problems += field_problems(error, document)
    problems += check_document(document)
    if problems or plan is None:
        raise PlanInvalidError(where, problems)
    plan = plan.resolved()
    source_bytes = source if isinstance(source, bytes) else source.encode()
    return LoadedPlan(plan=plan, dag=Dag.build(plan.steps), source_bytes=source_bytes, where=where)


def read_plan_file(path: Path) -> LoadedPlan:
    """Read and check a plan file.

    Raises:
        PlanInvalidError: there is no such file, it can't be read, or it is no valid plan.
    """
    return load_plan(
        _read(path), where=str(path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    )


def plan_json_schema() -> dict[str, Any]:
    """The JSON Schema of the plan format, for editors; what only the loader can check is not in it."""
    from planner.plan_schema import described  # noqa: PLC0415  only `vibe plan schema` needs the descriptions

    return described(Plan.model_json_schema())


def _object(document: object) -> dict[str, object]:
    if not isinstance(document, dict):
        message = f"a plan is a JSON object, not {'a list' if isinstance(document, list) else quoted(document)}"
        raise JsonRefused(Problem(path="", message=message))
    fields = cast("dict[str, object]", document)
    version = fields.get("version", FORMAT_VERSION)  # a missing one is a problem like any other
    if type(version) is not int or version != FORMAT_VERSION:
        message = f"{quoted(version)} is not a format this vibe reads"
        raise JsonRefused(Problem(path="version", message=message, fix=f"use {FORMAT_VERSION}"))
    return fields


def _read(path: Path) -> bytes:
    def refused(message: str, fix: str = "") -> PlanInvalidError:
        return PlanInvalidError(str(path), [Problem(path="", message=message, fix=fix)])

    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise refused("is a directory", "name the plan file in it")
        if not stat.S_ISREG(found.st_mode):
            raise refused("is not a regular file", "save the plan to a file first")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise refused("there is no such file", "check the path") from None
    except (OSError, ValueError) as error:
        text = getattr(error, "strerror", None) or str(error)
        raise refused(f"can't be read: {text}") from None
    if len(content) > MAX_BYTES:
        raise refused(f"is larger than {MAX_BYTES} bytes", "split it into several plans")
    return content
