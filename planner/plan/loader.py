"""Loads a plan file strictly: it becomes a plan, or every problem in it is reported at once and nothing runs."""

from __future__ import annotations

import json
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, cast

from msgspec import Struct, field, structs
from pydantic import ValidationError

from planner.plan.dag import Dag, find_cycles, shown_cycle
from planner.plan.diagnostics import (
    InputsInvalidError,
    PlanInvalidError,
    Problem,
    Suggester,
    UnfilledError,
    listed,
    quoted,
)
from planner.plan.estimate import width_of
from planner.plan.for_each import (
    LONGEST_ID,
    ItemsInvalidError,
    children_of,
    folded,
    no_list_at,
    pattern_named,
    with_children,
)
from planner.plan.inputs import check_inputs, input_values
from planner.plan.model import FORMAT_VERSION, MAX_STEPS, Child, Plan, Step
from planner.plan.placeholders import problems_in_text
from planner.plan.positions import Token, json_tokens, positions_in
from planner.plan.strict_json import (
    MAX_BYTES,
    JsonPath,
    JsonRefused,
    decode,
    list_in,
    numbered_objects,
    object_in,
    parse,
    shown_path,
)
from planner.plan.validation_errors import field_problems
from planner.plan.write_claims import is_barred
from subagents.step_model import spelled_out
from vibe.core.config.paths import in_utf8
from vibe.core.config.patterns import compile_linear, linear_engine
from vibe.core.modes import ExecutionMode
from vibe.system.errors import error_as

YAML_SUFFIXES = frozenset({".yaml", ".yml"})
_MODES = [mode.value for mode in ExecutionMode]
_COMMAND_MODES = (ExecutionMode.RUN.value, ExecutionMode.TEST.value)

Raw = dict[str, Any]


class LoadedPlan(Struct, frozen=True, kw_only=True):
    """A checked plan, its ``defaults`` written into its steps, with its graph, source bytes and name in messages."""

    plan: Plan
    dag: Dag
    source_bytes: bytes
    where: str

    @property
    def width(self) -> int:
        """The most steps, or steps for items of a list, that run side by side, roughly."""
        return width_of(self.plan, self.dag)

    def unfolded(self, children: Iterable[Child]) -> LoadedPlan:
        """Return the plan with steps for the items of a list added."""
        plan = with_children(self.plan, children)
        return structs.replace(self, plan=plan, dag=Dag.build(plan.steps))

    def folded(self, statuses: Mapping[str, str]) -> LoadedPlan:
        """Return the plan for drawings, with each list as one step that counts its items."""
        plan = folded(self.plan, statuses)
        return self if plan is self.plan else structs.replace(self, plan=plan, dag=Dag.build(plan.steps))

    def barred_writes(self) -> dict[str, list[str]]:
        """Return, by step, those of its ``writes`` that no approval mode lets it write without asking.

        They lead out of the workspace, hold secrets, or decide what runs later.
        """
        found = {step.id: [text for text in step.writes or () if is_barred(text)] for step in self.plan.steps}
        return {step_id: barred for step_id, barred in found.items() if barred}


class Form(Struct, frozen=True):
    """A format people write plans in. ``as_json`` converts it to JSON or refuses; ``tokens`` locate its parts."""

    as_json: Callable[[str], str]
    tokens: Callable[[str], Iterable[Token]]


def yaml_form() -> Form:
    """Return the form of YAML; its reader is imported only here, when it is needed."""
    from planner.plan.strict_yaml import yaml_as_json, yaml_tokens

    return Form(as_json=yaml_as_json, tokens=yaml_tokens)


JSON = Form(as_json=lambda text: text, tokens=json_tokens)


def load_plan(source: bytes | str, *, where: str, form: Form | None = None) -> LoadedPlan:
    """Check a document and build the plan; ``where`` names the document in messages.

    ``form`` is the format if a person wrote it: problems then have a line and a column. None means JSON that a program
    wrote.

    Raises:
        PlanInvalidError: the document breaks the format; carries all problems.
    """
    text = ""
    with error_as(JsonRefused, lambda error: PlanInvalidError(where, _with_positions(error.problems, text, form))):
        text = decode(source)
        as_json = form.as_json(text) if form else text
        document = _object(parse(as_json))
    plan, problems = check_plan(as_json, document)
    if problems or plan is None:
        raise PlanInvalidError(where, _with_positions(problems, text, form))
    source_bytes = source if isinstance(source, bytes) and as_json is text else as_json.encode()
    return LoadedPlan(plan=plan, dag=Dag.build(plan.steps), source_bytes=source_bytes, where=where)


def check_plan(text: str, document: dict[str, object]) -> tuple[Plan | None, list[Problem]]:
    """Return the plan in a JSON text, defaults filled in, and all its problems; ``document`` is the parsed text."""
    plan, problems, others = None, list[Problem](), check_document(document)
    try:
        plan = Plan.model_validate_json(text, strict=True).resolved()
        plan = plan if others else plan.filled()
    except ValidationError as error:
        problems += field_problems(error, document)
    except UnfilledError as error:
        problems.append(Problem("inputs", str(error)))
    return plan, [*problems, *others]


def with_inputs(loaded: LoadedPlan, given: Mapping[str, object]) -> LoadedPlan:
    """Return the plan with the values of its inputs filled in; they become the defaults in its document.

    A value of any type may be given as text.

    Raises:
        InputsInvalidError: an input is missing or unknown, or a value does not suit it, or the step whose list it is;
            names all of them at once.
        PlanInvalidError: the texts become too long.
    """
    if not loaded.plan.inputs and not given:
        return loaded
    values = input_values(loaded.plan.inputs, given, loaded.where)
    document = object_in(json.loads(loaded.source_bytes))
    for _, declared in numbered_objects(document.get("inputs")):
        declared["default"] = values[declared["name"]]
    filled = load_plan(json.dumps(document, ensure_ascii=False), where=loaded.where)
    if problems := list(_list_problems(filled.plan)):
        raise InputsInvalidError(loaded.where, problems, ())
    return filled


def _list_problems(plan: Plan) -> Iterator[str]:
    """Yield why no steps can be made for the items of inputs, which would be found only when their turn came."""
    for step in plan.steps:
        if step.for_each is not None and step.for_each.input is not None:
            try:
                children_of(step, plan.values().get(step.for_each.input), plan.values())
            except ItemsInvalidError as error:
                yield f"input {step.for_each.input!r}, the list of step {step.id!r}: {error}"


def read_plan_file(path: Path) -> LoadedPlan:
    """Read and check a plan file: YAML if its name ends so, else JSON.

    Raises:
        PlanInvalidError: the file is missing or unreadable, or the plan is invalid.
    """
    form = yaml_form() if path.suffix.lower() in YAML_SUFFIXES else JSON
    return load_plan(_read(path), where=in_utf8(path), form=form)


def _with_positions(problems: Sequence[Problem], text: str, form: Form | None) -> list[Problem]:
    """Return the problems with their places in the text, where these can be found, in the order of the text."""
    if form is None:
        return list(problems)
    wanted = [problem.path for problem in problems if problem.path and problem.at is None]
    found = positions_in(form.tokens(text), wanted) if wanted else {}
    placed = [problem if problem.at else structs.replace(problem, at=found.get(problem.path)) for problem in problems]
    return sorted(placed, key=lambda problem: problem.at or (0, 0))


def plan_json_schema() -> dict[str, Any]:
    """Return the JSON Schema of the plan format, for editors; it lacks the checks that only the loader can make."""
    return {
        **Plan.model_json_schema(),
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "vibe plan",
        "description": "A plan that `vibe plan run` executes: steps, the edges between them and the decisions "
        f"they wait for. Format version {FORMAT_VERSION}.",
    }


def _object(document: object) -> dict[str, object]:
    """Return the document if it is an object of a version this vibe reads, else raise JsonRefused."""
    if not isinstance(document, dict):
        given = "a list" if isinstance(document, list) else quoted(document)
        message = f"a plan must be an object, not {given}"
        raise JsonRefused(Problem("", message))
    fields = cast("dict[str, object]", document)
    version = fields.get("version", FORMAT_VERSION)  # a missing version is reported by the model
    if type(version) is not int or version != FORMAT_VERSION:
        message = f"{quoted(version)} is not a plan format this vibe reads"
        raise JsonRefused(Problem("version", message, f"use {FORMAT_VERSION}"))
    return fields


def _read(path: Path) -> bytes:
    """Read a plan file, or raise a PlanInvalidError that says why that is impossible."""

    def refused(message: str, fix: str = "") -> PlanInvalidError:
        return PlanInvalidError(str(path), [Problem("", message, fix)])

    try:
        if path.is_dir():
            raise refused("is a directory", "name the plan file in it")
        if path.exists() and not path.is_file():
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


# --- checks across fields, made on the raw document because some of its fields may be wrong --------------------------


class _Document(Struct):
    """The parts of a document that have the right shape."""

    raw: Raw
    steps: list[tuple[int, Raw]]
    decisions: list[tuple[int, Raw]]
    defaults: Raw
    positions: dict[str, int] = field(default_factory=dict[str, int])
    options: dict[str, Counter[str]] = field(default_factory=dict[str, "Counter[str]"])
    suggester: Suggester = field(default_factory=Suggester)

    def step(self, step_id: object) -> Raw:
        """Return a step with the plan's ``defaults``, or an empty object if no step has that id."""
        place = self.positions.get(step_id) if isinstance(step_id, str) else None
        return {} if place is None else {**self.defaults, **object_in(list_in(self.raw.get("steps"))[place])}


def check_document(raw: Raw) -> list[Problem]:
    """Return every problem of how the parts of a plan fit together, or none if the plan has too many steps.

    Values of the wrong type are skipped: validation by the model reports them.
    """
    steps = numbered_objects(raw.get("steps"))
    if len(steps) > MAX_STEPS:
        return []
    document = _Document(raw, steps, numbered_objects(raw.get("decisions")), object_in(raw.get("defaults")))
    return [
        *_check_step_ids(document),
        *_check_decisions(document),
        *_check_edges(document),
        *_check_cycles(document),
        *_check_settings(document),
        *_check_commands(document),
        *_check_side_effects(document),
        *_check_lists(document),
        *_check_sample(object_in(raw.get("sample"))),
        *check_inputs(raw),
    ]


def _texts(value: object) -> list[str]:
    return [item for item in list_in(value) if isinstance(item, str)]


def _check_step_ids(document: _Document) -> Iterator[Problem]:
    for index, step in document.steps:
        step_id = step.get("id")
        if not isinstance(step_id, str):
            continue
        first = document.positions.setdefault(step_id, index)
        if first != index:
            message = f"{quoted(step_id)} is already the id of steps[{first}]"
            yield Problem(f"steps[{index}].id", message, "give each step a unique id")


def _check_decisions(document: _Document) -> Iterator[Problem]:
    for index, decision in document.decisions:
        path = f"decisions[{index}]"
        known = Counter(_texts([option.get("id") for _, option in numbered_objects(decision.get("options"))]))
        for name in [name for name, times in known.items() if times > 1]:
            yield Problem(f"{path}.options", f"two options have the id {quoted(name)}", "give each option a unique id")
        yield from _check_default(path, decision, known)
        decision_id = decision.get("id")
        if isinstance(decision_id, str):
            if decision_id in document.options:
                yield Problem(f"{path}.id", f"{quoted(decision_id)} is already the id of another decision")
            document.options.setdefault(decision_id, known)


def _check_default(path: str, decision: Raw, known: Counter[str]) -> Iterator[Problem]:
    default = decision.get("default")
    chosen = [default] if isinstance(default, str) else _texts(default)
    for name in chosen:
        if name not in known:
            yield Problem(f"{path}.default", f"unknown option {quoted(name)}", f"the options are {listed(known)}")
    if default == []:
        yield Problem(f"{path}.default", "names no option", "name at least one option, or leave the field out")
    elif isinstance(default, list) and len(chosen) != 1 and decision.get("multi_select") is not True:
        message = f"{len(chosen)} options are chosen, but exactly one is allowed"
        yield Problem(f"{path}.default", message, 'name one, or set "multi_select": true')


def _edges(step: Raw) -> Iterator[tuple[JsonPath, str]]:
    """Yield the step ids in ``depends_on``, each with its path in the step."""
    for index, entry in enumerate(list_in(step.get("depends_on"))):
        name = entry if isinstance(entry, str) else object_in(entry).get("step")
        if isinstance(name, str):
            yield ("depends_on", index) if isinstance(entry, str) else ("depends_on", index, "step"), name


def _check_edges(document: _Document) -> Iterator[Problem]:
    for index, step in document.steps:
        seen: set[str] = set()
        for place, name in _edges(step):
            path = shown_path(("steps", index, *place))
            if name == step.get("id"):
                yield Problem(path, "a step can't depend on itself", "remove this entry")
            elif name not in document.positions:
                yield _unknown_step(document, path, name)
            elif name in seen:
                yield Problem(path, f"{quoted(name)} is listed twice", "list each dependency once")
            seen.add(name)


def _unknown_step(document: _Document, path: str, name: str) -> Problem:
    pattern = pattern_named(name)
    if pattern in document.positions and document.step(pattern).get("for_each") is not None:
        message = f"{quoted(name)} is made for an item of step {quoted(pattern)} while the plan runs"
        return Problem(path, message, f"name {quoted(pattern)}: it ends after all of them")
    fix = document.suggester.fix(name, document.positions, "name the id of a step in this plan")
    return Problem(path, f"unknown step {quoted(name)}", fix)


def _check_cycles(document: _Document) -> Iterator[Problem]:
    needs: dict[str, list[str]] = {step_id: [] for step_id in document.positions}
    for _, step in document.steps:
        step_id = step.get("id")
        if isinstance(step_id, str):
            needs[step_id] += [name for _, name in _edges(step) if name in needs and name != step_id]
    for cycle in find_cycles(needs):
        yield Problem(
            f"steps[{document.positions[cycle[0]]}].depends_on",
            f"the steps form a cycle: {shown_cycle(cycle)}",
            "remove one of these dependencies",
        )


def _check_settings(document: _Document) -> Iterator[Problem]:
    for path, settings in [
        (("defaults",), document.defaults),
        *((("steps", index), step) for index, step in document.steps),
    ]:
        if settings.get("decision") is not None or settings.get("when") is not None:
            yield from _check_choice(document, path, settings)
        yield from _check_schema((*path, "output_schema"), settings.get("output_schema"))
        yield from _check_patterns((*path, "allowed_tools"), settings.get("allowed_tools"))
        yield from _check_patterns((*path, "denied_tools"), settings.get("denied_tools"))


def _check_schema(path: JsonPath, schema: object) -> Iterator[Problem]:
    """Yield the problems of a schema."""
    if isinstance(schema, dict):
        for where, message in _schema_problems(json.dumps(schema)):
            yield Problem(shown_path((*path, *where)), f"is not a valid JSON Schema: {message}")


@lru_cache(maxsize=64)
def _schema_problems(schema: str) -> tuple[tuple[JsonPath, str], ...]:
    """Return the place and the sentence of each problem of a schema, which many steps may share."""
    from vibe.core.tools.json_schema import schema_problems

    return tuple((problem.path, problem.message) for problem in schema_problems(json.loads(schema)))


def _check_patterns(path: JsonPath, patterns: object) -> Iterator[Problem]:
    for index, pattern in enumerate(list_in(patterns)):
        fault = _pattern_fault(pattern) if isinstance(pattern, str) else None
        if fault is not None:
            yield Problem(shown_path((*path, index)), fault)


def _check_choice(document: _Document, path: JsonPath, settings: Raw) -> Iterator[Problem]:
    """Check that the decisions and options that ``decision`` and ``when`` name exist."""
    decision = settings.get("decision")
    if isinstance(decision, str):
        yield from _check_decision_known(document, (*path, "decision"), decision)
    for name, wanted in object_in(settings.get("when")).items():
        place = (*path, "when", name)
        yield from _check_decision_known(document, place, name)
        if wanted == []:
            yield Problem(shown_path(place), "names no option, so the step would never run")
        if name not in document.options:
            continue
        for option in _texts(wanted):
            if option not in document.options[name]:
                known = document.options[name]
                fix = document.suggester.fix(option, known, f"its options are {listed(known)}")
                yield Problem(shown_path(place), f"decision {quoted(name)} has no option {quoted(option)}", fix)


def _check_decision_known(document: _Document, path: JsonPath, name: str) -> Iterator[Problem]:
    if name not in document.options:
        otherwise = f"the plan's decisions: {listed(document.options)}"
        fix = document.suggester.fix(name, document.options, otherwise)
        yield Problem(shown_path(path), f"unknown decision {quoted(name)}", fix)


def _check_commands(document: _Document) -> Iterator[Problem]:
    """Check that only modes with commands have one, and that it has no prompt or output schema: no model reads them."""
    for index, step in document.steps:
        own = "command" in step
        if (step if own else document.defaults).get("command") is None:
            continue
        path = f"steps[{index}].command" if own else f"steps[{index}]"
        source = "a command" if own else "the command of `defaults`"
        mode = step.get("mode")
        if mode in _MODES and mode not in _COMMAND_MODES:
            message = f"{source} can't run in mode {quoted(mode)}"
            fix = 'use mode "run" or "test"' if own else 'use mode "run" or "test", or set "command": null here'
            yield Problem(path, message, fix)
        if step.get("prompt") is not None:
            message = f"{source} runs without a model, so this step's prompt is never read"
            yield Problem(f"steps[{index}].prompt", message, "keep `command` or `prompt`, not both")
        if step.get("output_schema") is not None:
            message = f"{source} runs without a model, so it can't return a value"
            yield Problem(f"steps[{index}].output_schema", message, "leave it out, or use a `prompt`")


def _check_side_effects(document: _Document) -> Iterator[Problem]:
    """Check that steps which act outside the workspace ask for nothing that repeats them automatically."""
    for index, step in document.steps:
        settings = {**document.defaults, **step}
        if settings.get("side_effects") is not True:
            continue
        path, retries = f"steps[{index}]", settings.get("retries")
        if isinstance(retries, int) and retries > 0:
            message = "a step with side effects is never retried automatically"
            yield Problem(f"{path}.retries", message, 'use 0, and "on_failure": "ask" to be asked')
        if isinstance(settings.get("model"), list) and settings.get("command") is None:
            message = "a step with side effects is never retried automatically, so no other model can take over"
            yield Problem(f"{path}.model", message, "name one model")
        if settings.get("on_failure") == "replan":
            message = "a step with side effects is never retried automatically, so no revision can fix it"
            yield Problem(f"{path}.on_failure", message, 'use "ask"')


def _check_lists(document: _Document) -> Iterator[Problem]:
    """Check the lists of steps, and that only such steps have placeholders in ``writes``."""
    for index, step in document.steps:
        path, each = f"steps[{index}]", step.get("for_each")
        for number, glob in enumerate(list_in(step.get("writes"))):
            yield from problems_in_text(f"{path}.writes[{number}]", glob, inputs=(), items=each is not None)
        if isinstance(each, dict | list):  # the model reports other types
            yield from _check_list(document, path, step, object_in(spelled_out(each)))


def _check_list(document: _Document, path: str, step: Raw, each: Raw) -> Iterator[Problem]:
    """Check one ``for_each``: its source and, where possible, its list."""
    step_id, source, items = step.get("id"), each.get("in"), each.get("items")
    if isinstance(step_id, str) and len(step_id) > LONGEST_ID:
        message = f"is {len(step_id)} characters long, and a step with for_each has at most {LONGEST_ID}"
        yield Problem(f"{path}.id", message, "those of its items get longer ids: choose a shorter one")
    given = [name for name in ("in", "items", "input") if each.get(name) is not None]
    if not given:
        yield Problem(f"{path}.for_each", "names no list", 'add "in", the step that hands it in, or "items"')
    elif len(given) > 1:
        yield Problem(f"{path}.for_each", f"has both `{given[0]}` and `{given[1]}`", "keep one of them")
    elif isinstance(source, str):
        yield from _check_source(document, f"{path}.for_each", step, source, each.get("at"))
    elif isinstance(items, list):
        yield from _check_items(path, step, each)
    elif given == ["input"]:
        declared = numbered_objects(document.raw.get("inputs"))
        lists = [one.get("name") for _, one in declared if one.get("type") == "list"]
        if each.get("input") not in lists:
            fix = f"those that are: {listed(filter(None, lists))}"
            yield Problem(f"{path}.for_each.input", f"{quoted(each.get('input'))} is not an input of type list", fix)


def _check_items(path: str, step: Raw, each: Raw) -> Iterator[Problem]:
    """Check that steps can be made for items that the plan itself lists."""
    with suppress(ValidationError):  # reported elsewhere
        pattern = Step.model_validate({**step, "for_each": each})
        enough, count = each.get("enough"), len(each["items"])
        if isinstance(enough, int) and enough > count:
            yield Problem(f"{path}.for_each.enough", f"{enough} can't complete of {count}", f"use {count} at most")
        try:
            children_of(pattern, each["items"], defaultdict(str))
        except ItemsInvalidError as error:
            yield Problem(f"{path}.for_each", str(error))


def _check_source(document: _Document, path: str, step: Raw, source: str, at: object) -> Iterator[Problem]:
    """Check that the step named by ``in`` must complete first, and hands in a list."""
    edges = [object_in(entry) or {"step": entry} for entry in list_in(step.get("depends_on"))]
    edge = next((entry for entry in edges if entry.get("step") == source), None)
    schema = document.step(source).get("output_schema")
    if edge is None:
        yield Problem(f"{path}.in", f"the step does not depend on {quoted(source)}", "add that to its `depends_on`")
    elif edge.get("on", "completed") != "completed":
        yield Problem(f"{path}.in", f"{quoted(source)} need not complete", 'depend on it with "on": "completed"')
    elif document.step(source).get("for_each") is not None:
        return  # its output is the list of its items' results
    elif source in document.positions and not isinstance(schema, dict):
        fix = "give it one, so that it hands in the list"
        yield Problem(f"{path}.in", f"step {quoted(source)} has no `output_schema`", fix)
    elif isinstance(schema, dict) and isinstance(at, str | None):
        problem = no_list_at(cast("Raw", schema), at or "")
        if problem:
            yield Problem(f"{path}.{'at' if at else 'in'}", f"the `output_schema` of {quoted(source)} {problem}")


def _check_sample(sample: Raw) -> Iterator[Problem]:
    """Check that a sample's paths stay below the plan's folder."""
    for name in ("project", "replay"):
        text = sample.get(name)
        if not isinstance(text, str):
            continue
        windows = PureWindowsPath(text.strip())
        is_outside = windows.drive or windows.root or ".." in windows.parts or text.strip().startswith("~")
        if is_outside or PurePosixPath(text.strip()).is_absolute():
            message = f"{quoted(text)} is outside the plan's folder"
            yield Problem(f"sample.{name}", message, "use a relative path below it")


def _pattern_fault(pattern: str) -> str | None:
    """Return what is wrong with a glob or ``re:`` pattern for tools, or None."""
    if pattern.startswith("re:"):
        return _regex_fault(pattern[3:])
    opened = pattern.rfind("[")
    if opened >= 0 and "]" not in pattern[opened + 1 :]:
        return f"the glob {quoted(pattern)} has a '[' that is not closed"
    return None


def _regex_fault(text: str) -> str | None:
    try:
        with warnings.catch_warnings():  # a pattern that re only warns about still works
            warnings.simplefilter("ignore")
            re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        return f"the regular expression {quoted(text)} is not valid: {error}"
    if compile_linear(text) is not None:
        return None
    why = "it has a look-around or a back-reference" if linear_engine() else "name tools, or install google-re2"
    return f"the regular expression {quoted(text)} may take too long: {why}"
