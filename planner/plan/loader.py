"""The strict door: a plan file becomes a plan, or every problem in it is reported at once and nothing is run."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace
from pydantic import ValidationError

from planner.plan.dag import Dag
from planner.plan.diagnostics import PlanInvalidError, Problem, quoted
from planner.plan.model import FORMAT_VERSION, Plan
from planner.plan.positions import Token, json_tokens, positions_in
from planner.plan.strict_json import MAX_BYTES, JsonRefused, decode, parse
from planner.plan.validation_errors import field_problems
from planner.plan.validators import check_document
from planner.plan.write_claims import is_barred
from vibe.core.config.paths import in_utf8

YAML_SUFFIXES = frozenset({".yaml", ".yml"})


class LoadedPlan(Struct, frozen=True, kw_only=True):
    """A plan that passed: its ``defaults`` written into its steps, its graph, the bytes it was read from, and where."""

    plan: Plan
    dag: Dag
    source_bytes: bytes
    where: str

    def barred_writes(self) -> dict[str, list[str]]:
        """Return by step what of its ``writes`` no mode lets it write by itself.

        That leads out of the workspace, is a secret, or decides what runs later.
        """
        found = {step.id: [text for text in step.writes or () if is_barred(text)] for step in self.plan.steps}
        return {step_id: barred for step_id, barred in found.items() if barred}


class Form(Struct, frozen=True):
    """A format people write plans in: ``as_json`` makes JSON of it (or refuses), ``tokens`` say where its parts are."""

    as_json: Callable[[str], str]
    tokens: Callable[[str], Iterable[Token]]


def yaml_form() -> Form:
    """The form of YAML, whose reader is loaded for it alone."""
    from planner.plan.strict_yaml import yaml_as_json, yaml_tokens

    return Form(as_json=yaml_as_json, tokens=yaml_tokens)


JSON = Form(as_json=lambda text: text, tokens=json_tokens)


def load_plan(source: bytes | str, *, where: str, form: Form | None = None) -> LoadedPlan:
    """Check a document and build the plan; ``where`` names it in messages.

    ``form``: a person wrote it so, and problems tell line and column; None: JSON that a program wrote.

    Raises:
        PlanInvalidError: it breaks the format, anywhere; carries all problems.
    """
    text = ""
    try:
        text = decode(source)
        as_json = form.as_json(text) if form else text
        document = _object(parse(as_json))
    except JsonRefused as error:
        raise PlanInvalidError(where, _placed(error.problems, text, form)) from None
    plan, problems = checked(as_json, document)
    if problems or plan is None:
        raise PlanInvalidError(where, _placed(problems, text, form))
    source_bytes = source if isinstance(source, bytes) and as_json is text else as_json.encode()
    return LoadedPlan(plan=plan, dag=Dag.build(plan.steps), source_bytes=source_bytes, where=where)


def checked(text: str, document: dict[str, object]) -> tuple[Plan | None, list[Problem]]:
    """Return the plan in a JSON text, which is that document, with its defaults filled in; and all that is wrong."""
    plan, problems = None, list[Problem]()
    try:
        plan = Plan.model_validate_json(text, strict=True).resolved()
    except ValidationError as error:
        problems += field_problems(error, document)
    return plan, [*problems, *check_document(document)]


def read_plan_file(path: Path) -> LoadedPlan:
    """Read and check a plan file: YAML where its name says so, else JSON.

    Raises:
        PlanInvalidError: the file is missing or unreadable, or the plan is invalid.
    """
    form = yaml_form() if path.suffix.lower() in YAML_SUFFIXES else JSON
    return load_plan(_read(path), where=in_utf8(path), form=form)


def _placed(problems: Sequence[Problem], text: str, form: Form | None) -> list[Problem]:
    """The problems with where each is, where that can be told."""
    if form is None:
        return list(problems)
    wanted = [problem.path for problem in problems if problem.path and problem.at is None]
    found = positions_in(form.tokens(text), wanted, text) if wanted else {}
    placed = [problem if problem.at else replace(problem, at=found.get(problem.path)) for problem in problems]
    return sorted(placed, key=lambda problem: problem.at or (0, 0))


def plan_json_schema() -> dict[str, Any]:
    """The JSON Schema of the plan format, for editors; what only the loader can check is not in it."""
    return {
        **Plan.model_json_schema(),
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "vibe plan",
        "description": "A plan that `vibe plan run` executes: steps, the edges between them and the decisions "
        f"they wait for. Format version {FORMAT_VERSION}.",
    }


def _object(document: object) -> dict[str, object]:
    if not isinstance(document, dict):
        given = "a list" if isinstance(document, list) else "null" if document is None else quoted(document)
        message = f"a plan must be an object, not {given}"
        raise JsonRefused(Problem("", message))
    fields = cast("dict[str, object]", document)
    version = fields.get("version", FORMAT_VERSION)  # a missing one is a problem like any other
    if type(version) is not int or version != FORMAT_VERSION:
        message = f"{quoted(version)} is not a plan format this vibe reads"
        raise JsonRefused(Problem("version", message, f"use {FORMAT_VERSION}"))
    return fields


def _read(path: Path) -> bytes:
    def refused(message: str, fix: str = "") -> PlanInvalidError:
        return PlanInvalidError(str(path), [Problem("", message, fix)])

    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise refused("is a directory", "name the plan file in it")
        if not stat.S_ISREG(found.st_mode):
            raise refused("is not a regular file", "save the plan to a file first")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise refused("no such file", "check the path") from None
    except (OSError, ValueError) as error:
        text = getattr(error, "strerror", None) or str(error)
        raise refused(f"can't be read: {text}") from None
    if len(content) > MAX_BYTES:
        raise refused(f"is larger than {MAX_BYTES} bytes", "split it into several plans")
    return content
