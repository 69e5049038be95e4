"""Repairs a plan that a model handed in, and reports each repair.

Problems that only the model can fix are refused.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Mapping
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
_NOT_IN_ID = re.compile(r"[^a-z0-9_-]+")

Raw = dict[str, Any]


class Repaired(Struct, frozen=True, kw_only=True):
    """A plan that a model wrote. ``repairs`` says what was changed, one sentence each."""

    loaded: LoadedPlan
    repairs: tuple[str, ...]


def repaired_plan(value: Mapping[str, Any], *, goal: str, metadata: Mapping[str, Any]) -> Repaired:
    """Return the plan in ``value``, a document without ``version`` and ``goal``.

    Ids become valid and unique, and every reference follows them. Dependencies of a step on itself, on unknown steps or
    in a cycle are dropped. The plan's metadata notes the repairs, and that a model wrote it.

    Raises:
        PlanInvalidError: the plan has other problems; carries all of them.
    """
    document = cast("Raw", json.loads(json.dumps(value)))
    repair = _Repair(document)
    repair.run()
    origin = {ORIGIN: MODEL_ORIGIN, **metadata, **({"repairs": repair.repairs} if repair.repairs else {})}
    head = {"version": FORMAT_VERSION, "goal": goal}
    text = json.dumps({**head, **document, **head, "metadata": origin}, indent=2, ensure_ascii=False) + "\n"
    return Repaired(loaded=load_plan(text, where="the plan"), repairs=tuple(repair.repairs))


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
            given = _objects(decision.get("options"))
            renamed = self._rename(given, "option", fallback=lambda option: option.get("label"))
            options[str(decision.get("id"))] = renamed
            _follow(decision, "default", renamed)
        for step in steps:
            _follow(step, "decision", chosen)
            _follow_when(step, chosen, options)
            self._mend_edges(step, names)
        self._break_cycles(steps)

    def _rename(self, entries: list[Raw], kind: str, fallback: Callable[[Raw], object]) -> dict[str, str]:
        """Give every entry a valid, unique id, keeping good ones, and return the ids by the names the model used."""
        given = [entry.get("id") for entry in entries]
        good = [name if isinstance(name, str) and _ID.fullmatch(name) else None for name in given]
        taken = {name for name in good if name is not None}
        kept: set[str] = set()
        names: dict[str, str] = {}
        for number, (entry, name, is_good) in enumerate(zip(entries, given, good, strict=True), start=1):
            if is_good is not None and is_good not in kept:
                kept.add(is_good)
                names[is_good] = is_good
                continue
            if name is not None and (isinstance(name, bool) or not isinstance(name, (str, int))):
                continue  # not a name at all, which the loader reports
            text = "" if name is None else str(name)
            base = slug(text) or slug(str(fallback(entry) or "")) or f"{kind}-{number}"
            new = _unused(base, taken)
            taken.add(new)
            entry["id"] = new
            names.setdefault(text, new) if text else None
            was = f"the {kind} id {quoted(text)}" if text else f"the missing {kind} id"
            self.repairs.append(f"{was} became {new!r}")
        for name, new in list(names.items()):
            names.setdefault(slug(name), new)
        return names

    def _mend_edges(self, step: Raw, names: Mapping[str, str]) -> None:
        """Make ``depends_on`` a list of edges between existing steps, each listed once."""
        entries = step.get("depends_on")
        if entries is None:
            step.pop("depends_on", None)
            return
        if isinstance(entries, str):
            entries = [entries]
        if not isinstance(entries, list):
            return
        kept: list[Any] = []
        seen: set[str] = set()
        for entry in cast("list[Any]", entries):
            name = _edge_name(entry)
            if name is None:
                kept.append(entry)  # not an edge at all, which the loader reports
                continue
            target = names.get(name) or names.get(slug(name))
            if self._is_dropped(step, name, target, seen):
                continue
            seen.add(cast("str", target))
            kept.append({**entry, "step": target} if isinstance(entry, dict) else target)
        step["depends_on"] = kept

    def _is_dropped(self, step: Raw, name: str, target: str | None, seen: set[str]) -> bool:
        """Return whether an edge can't be kept, and report it unless it is only listed twice."""
        if target is None:
            self.repairs.append(f"step {step.get('id')!r} depended on {quoted(name)}, which is not a step: dropped")
        elif target == step.get("id"):
            self.repairs.append(f"step {target!r} depended on itself: dropped")
        return target is None or target == step.get("id") or target in seen

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
    number = 2
    name = base
    while name in taken:
        ending = f"-{number}"
        name = base[: MAX_ID - len(ending)] + ending
        number += 1
    return name


def _objects(value: object) -> list[Raw]:
    return [entry for _, entry in numbered_objects(value)]


def _edge_name(entry: object) -> str | None:
    name = cast("Raw", entry).get("step") if isinstance(entry, dict) else entry
    return str(name) if isinstance(name, (str, int)) and not isinstance(name, bool) else None


def _follow(entry: Raw, key: str, names: Mapping[str, str]) -> None:
    """Rename a reference, or a list of them; unknown ones stay, for the loader to report."""
    value = entry.get(key)
    if isinstance(value, list):
        entry[key] = [_renamed(name, names) for name in cast("list[Any]", value)]
    elif value is not None:
        entry[key] = _renamed(value, names)


def _follow_when(step: Raw, decisions: Mapping[str, str], options: Mapping[str, Mapping[str, str]]) -> None:
    when = step.get("when")
    if not isinstance(when, dict):
        return
    renamed: Raw = {}
    for name, wanted in cast("Raw", when).items():
        decision = _renamed(name, decisions)
        renamed[decision] = wanted
        _follow(renamed, decision, options.get(decision, {}))
    step["when"] = renamed


def _renamed(name: Any, names: Mapping[str, str]) -> Any:
    return names.get(name) or names.get(slug(name)) or name if isinstance(name, str) else name
