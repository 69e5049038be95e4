"""Repairs a plan that a model handed in, and reports each repair.

Problems that only the model can fix are refused.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import chain, count, islice
from typing import Any, cast

from msgspec import Struct, field

from planner.plan.dag import find_cycles
from planner.plan.diagnostics import quoted
from planner.plan.loader import LoadedPlan, load_plan
from planner.plan.model import FORMAT_VERSION
from planner.plan.strict_json import list_in, numbered_objects

ORIGIN = "origin"
MODEL_ORIGIN = "model"
"""The ``origin`` in the ``metadata`` of a plan that a model wrote: its commands run only once they are accepted."""

MAX_ID = 64
_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_BY_NUMBER = re.compile(r"(?i:step)?[ #_-]*\d+")
_NOT_IN_ID = re.compile(r"[^a-z0-9_-]+")

Raw = dict[str, Any]


class RepairedPlan(Struct, frozen=True, kw_only=True):
    """A plan that a model wrote. ``repairs`` says what was changed, one sentence each."""

    loaded: LoadedPlan
    repairs: tuple[str, ...]


def mended(value: Mapping[str, Any], schema: Mapping[str, Any]) -> tuple[Raw, tuple[str, ...]]:
    """Return a plan's document in the shape of a schema, with what was changed in it, one sentence each.

    Ids become valid and unique, and every reference follows them, also one by title. Dependencies of a step on itself,
    on unknown steps or in a cycle are dropped.
    """
    document = fitted(json.loads(json.dumps(value)), schema, schema.get("$defs", {}))
    repair = _Repair(document)
    repair.run()
    return document, tuple(repair.repairs)


def repaired_plan(
    document: Mapping[str, Any], *, goal: str, metadata: Mapping[str, Any], repairs: tuple[str, ...]
) -> RepairedPlan:
    """Return the plan in a mended document; its metadata notes the repairs, and that a model wrote it.

    Raises:
        PlanInvalidError: the plan has problems; carries all of them.
    """
    origin = {ORIGIN: MODEL_ORIGIN, **metadata, **({"repairs": repairs} if repairs else {})}
    head = {"version": FORMAT_VERSION, "goal": goal}
    text = json.dumps({**head, **document, **head, "metadata": origin}, indent=2, ensure_ascii=False) + "\n"
    return RepairedPlan(loaded=load_plan(text, where="the plan"), repairs=repairs)


_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}


def fitted(value: Any, schema: Mapping[str, Any], named: Mapping[str, Any]) -> Any:
    """Return a value in the shape of a schema with the definitions ``named``, where its meaning leaves no doubt.

    Models write lists, objects, numbers and truth values as text, a single text for a list of it or for an object whose
    one needed field it is, a number for an id, a word in capitals, and null or nothing for what they leave out.
    """
    forms = [named[way["$ref"].rpartition("/")[2]] if "$ref" in way else way for way in schema.get("anyOf", [schema])]
    ways: dict[str, Raw] = {form["type"]: form for form in forms if "type" in form and _is_meant(form, value)}
    kind = _kind(value)
    if kind == "string" and not value and "null" in ways:
        return None
    if kind == "string" and "string" not in ways:
        meant: Any = value
        with suppress(ValueError, RecursionError):
            meant = json.loads(value.lower() if value.lower() in {"true", "false"} else value)
        if _kind(meant) not in ways:
            needed = ways.get("object", {}).get("required", ())
            meant = {needed[0]: value} if len(needed) == 1 else [value] if ways.get("array", {}).get("items") else value
        return value if meant == value else fitted(meant, schema, named)
    way = ways.get(kind, {})
    if kind == "integer" and "string" in ways and not way:
        return str(value)
    if kind == "string":
        return value.lower() if value.lower() in way.get("enum", ()) else value
    if kind == "array" and "items" in way:
        items = way["items"]
        return [fitted(one, items, named) for one in value if one != "" or "minLength" not in items]
    if kind == "object":
        known: Any = way.get("properties", {})
        by_pattern: Raw = way.get("patternProperties", {})
        kept = [(name, one) for name, one in value.items() if one is not None or "type" not in known.get(name, {})]
        return {name: fitted(one, known.get(name, *by_pattern.values()) or {}, named) for name, one in kept}
    return value


def _is_meant(form: Raw, value: object) -> bool:
    """Return whether a form may be that of a value: the constants among its fields tell the forms of objects apart."""
    fixed = [(name, field["const"]) for name, field in form.get("properties", {}).items() if "const" in field]
    return not isinstance(value, dict) or all(cast("Raw", value).get(name) == text for name, text in fixed)


def _kind(value: object) -> str:
    return _TYPES.get(cast("Any", type(value)), "null")


_decoder = json.JSONDecoder()

MOST_STARTS = 200
"""The most brackets in a text that are tried as the start of a value."""


def json_in(text: str) -> dict[str, Any] | list[Any] | None:
    """Return the longest JSON object or list in prose, or None; some models write what they should hand in."""
    found: list[tuple[int, Any]] = []
    end = 0
    for start in (bracket.start() for bracket in islice(re.finditer(r"[{\[]", text), MOST_STARTS)):
        with suppress(ValueError, RecursionError):
            if start >= end:
                value, end = _decoder.raw_decode(text, start)
                found.append((end - start, value))
    return max(found, key=lambda each: each[0])[1] if found else None


def slug(text: str) -> str:
    """Return the valid id closest to ``text``, or empty if nothing of the text can be kept."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return _NOT_IN_ID.sub("-", plain).strip("-_")[:MAX_ID].rstrip("-_")


class _Repair(Struct):
    """Repairs a raw document in place. It skips values of the wrong type, which the loader reports."""

    document: Raw
    repairs: list[str] = field(default_factory=list[str])

    def run(self) -> None:
        """Repair ids, references and edges, in an order in which each step can use the one before."""
        steps, decisions = _objects(self.document.get("steps")), _objects(self.document.get("decisions"))
        names = self._rename(steps, "step", fallback=lambda step: step.get("title"))
        chosen = self._rename(decisions, "decision", fallback=lambda decision: decision.get("question"))
        options: dict[str, Mapping[str, str]] = {}
        for decision in decisions:
            if isinstance(decision.get("options"), list):
                decision["options"] = [{"label": o} if isinstance(o, str) else o for o in decision["options"]]
            renamed = self._rename(_objects(decision.get("options")), "option", lambda option: option.get("label"))
            options[str(decision.get("id"))] = renamed
            if "default" in decision:
                decision["default"] = _renamed(decision["default"], renamed)
        for step in steps:
            if "decision" in step:
                step["decision"] = _renamed(step["decision"], chosen)
            if isinstance(when := step.get("when"), dict):
                by_id = {_renamed(name, chosen): wanted for name, wanted in cast("Raw", when).items()}
                step["when"] = {name: _renamed(wanted, options.get(name, {})) for name, wanted in by_id.items()}
            self._mend_edges(step, names)
        self._break_cycles(steps)

    def _rename(self, entries: list[Raw], kind: str, fallback: Callable[[Raw], object]) -> dict[str, str]:
        """Give every entry a valid, unique id, keeping good ones, and return the ids by the names the model used."""
        taken = {entry["id"] for entry in entries if isinstance(entry.get("id"), str) and _ID.fullmatch(entry["id"])}
        names: dict[str, str] = {}
        for number, entry in enumerate(entries, start=1):
            name: Any = entry.get("id")
            if not isinstance(name, str | None):
                continue  # not a name at all, which the loader reports
            if isinstance(name, str) and name in taken and name not in names:
                names[name] = name
                continue
            text = name or ""
            base = slug(text) or slug(str(fallback(entry) or "")) or f"{kind}-{number}"
            new = _unused(base, taken)
            taken.add(new)
            entry["id"] = new
            names.setdefault(text, new)
            was = f"the {kind} id {quoted(text)}" if text else f"the missing {kind} id"
            self.repairs.append(f"{was} became {new!r}")
        titles = {str(fallback(entry) or ""): str(entry.get("id")) for entry in reversed(entries)}
        for name, new in (*names.items(), *titles.items()):
            names.setdefault(slug(name), new)
        return {name: new for name, new in names.items() if name}

    def _mend_edges(self, step: Raw, names: Mapping[str, str]) -> None:
        """Make ``depends_on`` a list of edges between existing steps, each listed once."""
        entries = step.get("depends_on")
        if not isinstance(entries, list):
            return
        kept: dict[str, Any] = {}
        for entry in chain.from_iterable(_names_in(entry, names) for entry in cast("list[Any]", entries)):
            name = _edge_name(entry)
            target = None if name is None else names.get(name) or names.get(slug(name))
            if target == step.get("id"):
                self.repairs.append(f"step {target!r} depended on itself: dropped")
            elif target is not None:
                kept.setdefault(target, {**entry, "step": target} if isinstance(entry, dict) else target)
            elif name is None or _BY_NUMBER.fullmatch(name):
                kept[str(entry)] = entry  # no edge at all, or one to a step by its place, which the loader reports
            else:
                self.repairs.append(f"step {step.get('id')!r} depended on {quoted(name)}, which is not a step: dropped")
        step["depends_on"] = list(kept.values())

    def _break_cycles(self, steps: list[Raw]) -> None:
        """Drop from each cycle the edge that goes furthest against the order in which the steps are written."""
        by_id: dict[str, Raw] = {step["id"]: step for step in steps if isinstance(step.get("id"), str)}
        position = {step_id: number for number, step_id in enumerate(by_id)}
        needs: dict[str, list[str]] = {
            step_id: [
                name for name in map(_edge_name, list_in(step.get("depends_on"))) if name is not None and name in by_id
            ]
            for step_id, step in by_id.items()
        }
        while cycles := find_cycles(needs):
            for cycle in cycles:
                edges = zip(cycle, (*cycle[1:], cycle[0]), strict=True)
                dependant, needed = max(edges, key=lambda edge: position[edge[1]] - position[edge[0]])
                needs[dependant].remove(needed)
                entries = list_in(by_id[dependant]["depends_on"])
                by_id[dependant]["depends_on"] = [entry for entry in entries if _edge_name(entry) != needed]
                self.repairs.append(f"step {dependant!r} depended on {needed!r}, a cycle: dropped")


def _unused(base: str, taken: set[str]) -> str:
    """Return ``base`` if it is free, else ``base`` with the first free number."""
    endings = chain([""], (f"-{number}" for number in count(2)))
    return next(name for end in endings if (name := base[: MAX_ID - len(end)] + end) not in taken)


def _objects(value: object) -> list[Raw]:
    return [entry for _, entry in numbered_objects(value)]


def _names_in(entry: Any, names: Mapping[str, str]) -> list[Any]:
    """Return the entries that one entry of ``depends_on`` stands for: of a text that is no name, what commas part."""
    is_list = isinstance(entry, str) and entry not in names and "," in entry
    return [part.strip() for part in entry.split(",")] if is_list else [entry]


def _edge_name(entry: object) -> str | None:
    name = cast("Raw", entry).get("step") if isinstance(entry, dict) else entry
    return name if isinstance(name, str) else None


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Return a reference, or a list of them, by the new names; unknown ones stay, for the loader to report."""
    if isinstance(value, list):
        return [_renamed(one, names) for one in cast("list[Any]", value)]
    return names.get(value) or names.get(slug(value)) or value if isinstance(value, str) else value
