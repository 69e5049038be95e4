"""Steps that are done once for each item of a list: finds and checks the list, and makes the steps for its items."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any

from planner.plan.diagnostics import UnfilledError, listed, quoted
from planner.plan.model import LONGEST_IN_PROMPT, Child, Dependency, Plan, Step
from planner.plan.placeholders import (
    ABSENT,
    INDEX,
    INPUTS,
    ITEM,
    ITEM_VARIABLE,
    as_text,
    fill,
    find,
    part_of,
    variable_of,
)
from planner.plan.status import StepStatus, items_text
from planner.plan.strict_json import JsonObject, list_in, object_in
from planner.plan.write_claims import is_barred
from subagents.step_model import MAX_ITEMS, ForEach
from vibe.system.errors import UsageError
from vibe.system.grouping import by_key

ITEMS_REASON = "items"
"""Reason of a step that failed because its list is invalid or too few items completed, and of items skipped then."""
LONGEST_ID = 55
"""The most characters in the id of a step with a list; the ids of its items are longer."""
LONGEST_KEY, LONGEST_IN_TITLE = 200, 80
LARGEST_ENVIRONMENT = 100_000
"""The most bytes of an item for a command: the system takes little more in one environment variable."""
_DIGITS = 8
_CHILD_ID = re.compile(rf"(.+)-[0-9a-f]{{{_DIGITS}}}")
_NOT_A_PATH = re.compile(r"[\x00-\x1f\\*?\[\]{}]|^[-/~!#]|^[A-Za-z]:|(^|/)\.\.(/|$)|^$")


class ItemsInvalidError(UsageError):
    """No steps can be made from a list; the message names the item that is wrong."""


def variables_of(item: object) -> dict[str, str]:
    """Return the environment variables of an item: the whole of it, and each plain value at its top level."""
    plain = {name: value for name, value in object_in(item).items() if not isinstance(value, dict | list)}
    variables = {variable_of(ITEM_VARIABLE, name): as_text(value) for name, value in reversed(plain.items())}
    return {**variables, ITEM_VARIABLE: as_text(item)}


def pattern_named(step_id: str) -> str | None:
    """Return the id of the step whose item may have this id, or None if no item's id looks so."""
    found = _CHILD_ID.fullmatch(step_id)
    return found[1] if found else None


def at_pointer(value: object, pointer: str) -> object:
    """Return the part of a value that a JSON pointer names, or ABSENT if there is none."""
    for name in _names_of(pointer):
        value = part_of(value, name)
    return value


def _names_of(pointer: str) -> list[str]:
    """Return the names in a JSON pointer, unescaped."""
    return [name.replace("~1", "/").replace("~0", "~") for name in pointer.split("/")[1:]]


def items_of(pattern: Step, output: object, inputs: Mapping[str, object]) -> object:
    """Return a step's list: its own, an input of the plan, or part of ``output``. It may turn out not to be a list."""
    each = list_of(pattern)
    found = each.items if each.source is None else at_pointer(output, each.at)
    found = found if each.input is None else inputs.get(each.input)
    return None if found is ABSENT else found


def list_of(pattern: Step) -> ForEach:
    """Return the ``for_each`` of a step with a list."""
    if pattern.for_each is None:
        raise TypeError(f"step {pattern.id!r} has no list: this is a bug in vibe, please report it")
    return pattern.for_each


def no_list_at(schema: JsonObject, pointer: str) -> str:
    """Return how a JSON Schema rules out a list at the place a pointer names; blank if it allows one."""
    for name in _names_of(pointer):
        kinds, known = _kinds(schema, "object"), object_in(schema.get("properties"))
        if "object" not in kinds and "array" not in kinds:
            return f"has no part {quoted(name)} where it says {quoted(kinds)}"
        if known and name not in known and "object" in kinds and not schema.get("additionalProperties"):
            return f"has no {quoted(name)}; its properties: {listed(known)}"
        schema = object_in(known.get(name))
    kinds, where = _kinds(schema, "array"), f" at {pointer}" if pointer else ""
    return "" if "array" in kinds else f"says {quoted(kinds)}{where}, not a list"


def _kinds(schema: JsonObject, usual: str) -> list[Any] | str:
    """Return the types that a schema allows, or the ``usual`` one if it names none; nonsense is reported elsewhere."""
    kinds = schema.get("type")
    return kinds if isinstance(kinds, str) else list_in(kinds) or usual


def items_as_bytes(items: object) -> tuple[bytes, str]:
    """Return the bytes in which a list is kept on disk, and their SHA-256 digest."""
    data = json.dumps(items, separators=(",", ":")).encode()
    return data, sha256(data).hexdigest()


def children_of(
    pattern: Step, items: object, inputs: Mapping[str, object], known: Container[str] = ()
) -> tuple[Child, ...]:
    """Make a step for each item. ``inputs`` are the values of the plan's inputs, ``known`` the ids of its steps.

    Raises:
        ItemsInvalidError: ``items`` is not a list or too long, or no step can be made for one of the items.
    """
    each = list_of(pattern)
    entries = list_in(items)
    if not isinstance(items, list):
        where = "in what it handed in" if not each.at else f"at {each.at} of what it handed in"
        whose = f"step {each.source!r}" if each.source else f"input {each.input!r}"
        raise ItemsInvalidError(f"{whose} has no list {where}")
    if len(entries) > each.at_most:
        fix = f"raise it (to {MAX_ITEMS:,} at most)" if each.at_most < MAX_ITEMS else "have a shorter list made"
        raise ItemsInvalidError(f"{len(entries):,} items are more than `at_most` allows, {each.at_most:,}: {fix}")
    waves = -(-len(entries) // min(each.width or len(entries) or 1, len(entries) or 1))
    children: dict[str, Child] = {}
    for number, item in enumerate(entries):
        key = _key(each, item, number)
        child_id = f"{pattern.id}-{sha256(key.encode('utf-8', 'replace')).hexdigest()[:_DIGITS]}"
        twin = children.get(child_id)
        if twin is not None and twin.key == key:
            raise ItemsInvalidError(f"items {twin.number} and {number} have the same key, {quoted(key)}")
        if child_id in known or twin is not None:
            raise ItemsInvalidError(f"item {number} ({quoted(key)}) would be step {child_id!r}, which exists already")
        made = {"id": child_id, "for_each": None, "item": item, "number": number, "key": key, "waves": waves}
        try:
            filled = _filled(pattern, {INPUTS: inputs, ITEM: item, INDEX: number})
        except UnfilledError as error:
            raise ItemsInvalidError(f"item {number} ({quoted(key)}): {error}") from None
        children[child_id] = _made_of(pattern, pattern=pattern.id, **made, **filled)
    return tuple(children.values())


def _made_of(step: Step, **changes: Any) -> Child:
    """Return a child with the fields of a step, except for these changes."""
    fields = {name: getattr(step, name) for name in Step.model_fields}
    return Child.model_construct(_fields_set={*step.model_fields_set, *changes}, **{**fields, **changes})


def remade(child: Child, step: Step) -> Child:
    """Return the child with the fields that its step has after a revision."""
    return _made_of(
        step, **{name: getattr(child, name) for name in Child.model_fields if name not in Step.model_fields}
    )


def _key(each: ForEach, item: object, number: int) -> str:
    """Return the key of an item.

    Raises:
        ItemsInvalidError: the item has none, or one that is too long.
    """
    named: Any = at_pointer(item, each.key)
    is_whole = not each.key and bool(object_in(item) or list_in(item))
    key = as_text(named) if named is not ABSENT else ""
    if not is_whole and (isinstance(named, bool) or not isinstance(named, str | int | float) or not key.strip()):
        where = f"nothing at {each.key}" if named is ABSENT else f"{quoted(named)} at {each.key or 'its place'}"
        raise ItemsInvalidError(f"item {number} has {where}, which is not a key: a key is text, not blank, or a number")
    if len(key) > LONGEST_KEY:
        fix = "name a shorter part of the item with `key`"
        raise ItemsInvalidError(f"item {number} has a key of {len(key):,} characters, {quoted(key)}: {fix}")
    return key


def _filled(pattern: Step, values: Mapping[str, object]) -> dict[str, Any]:
    """Return the texts of a step with an item filled in.

    Raises:
        UnfilledError: a text names something that the item lacks, or the item doesn't suit ``writes`` or a command.
    """
    title = " ".join(fill(pattern.title, values, longest=LONGEST_IN_TITLE).split())
    filled: dict[str, Any] = {"title": title or pattern.id}
    if pattern.command is None:
        filled["prompt"] = fill(pattern.instructions, values, longest=LONGEST_IN_PROMPT)
    if pattern.writes is not None:
        filled["writes"] = [_path(glob, values) for glob in pattern.writes]
    if pattern.command is not None or pattern.verify:
        texts = variables_of(values[ITEM]).values()
        if sum(len(text.encode("utf-8", "replace")) for text in texts) > LARGEST_ENVIRONMENT:
            raise UnfilledError(f"is more than a command can be given, {LARGEST_ENVIRONMENT:,} bytes")
        if any("\0" in text for text in texts):
            raise UnfilledError("has a NUL character, which no command can be given")
    return filled


def _path(glob: str, values: Mapping[str, object]) -> str:
    """Return a glob of ``writes`` with an item filled in.

    Raises:
        UnfilledError: the item would lead elsewhere, stand for more than one name, or name files barred to items.
    """
    for placeholder in dict.fromkeys(find(glob)):
        if _NOT_A_PATH.search(text := fill(placeholder.text, values)):
            problem = "is not a relative path without `..`, wildcards and a leading `-`"
            raise UnfilledError(f"`writes` names {quoted(text)}, which {problem}")
    filled = fill(glob, values)
    if is_barred(str(PurePosixPath(filled))):
        raise UnfilledError(f"`writes` names {quoted(filled)}, which no step made for an item may write")
    return filled


def with_children(plan: Plan, children: Iterable[Child]) -> Plan:
    """Return the plan with steps for items, each listed after its pattern, which ends only after all of them."""
    own = by_key((child.pattern, child) for child in children)
    steps: list[Step] = []
    for step in plan.steps:
        after = [Dependency(step=child.id, on="finished") for child in own.get(step.id, ())]
        steps.append(step.model_copy(update={"depends_on": [*step.depends_on, *after]}) if after else step)
        steps += own.get(step.id, ())
    return plan.model_copy(update={"steps": steps})


def own_edges(step: Step) -> Iterable[Dependency]:
    """Return the dependencies in the plan's document, without those on the steps for its own items."""
    if step.for_each is None:
        return step.dependencies
    return [edge for edge in step.dependencies if pattern_named(edge.step) != step.id]


def folded(plan: Plan, statuses: Mapping[str, str]) -> Plan:
    """Return the plan for drawings: the steps for items are left out, and their lists' titles count them."""
    bare, children = without_children(plan)
    found = by_key((one.pattern, statuses.get(one.id, StepStatus.PENDING)) for one in children.values())
    steps = [
        step.model_copy(update={"title": f"{step.title}  {items_text(found[step.id])}"}) if step.id in found else step
        for step in bare.steps
    ]
    return bare.model_copy(update={"steps": steps}) if found else plan


def without_children(plan: Plan) -> tuple[Plan, dict[str, Child]]:
    """Return the plan as in its document, and its steps for items by id."""
    children = {step.id: step for step in plan.steps if isinstance(step, Child)}
    if not children:
        return plan, children
    patterns = {child.pattern for child in children.values()}
    steps: Sequence[Step] = [step for step in plan.steps if step.id not in children]
    bare = [_without(step, children) if step.id in patterns else step for step in steps]
    return plan.model_copy(update={"steps": bare}), children


def _without(pattern: Step, children: Mapping[str, Child]) -> Step:
    edges = zip(pattern.depends_on, pattern.dependencies, strict=True)
    return pattern.model_copy(update={"depends_on": [said for said, edge in edges if edge.step not in children]})
