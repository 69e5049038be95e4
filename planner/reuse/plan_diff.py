"""Differences between the steps of two plans: unchanged, changed and why, added, removed; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from planner.reuse.cache_keys import KeyedPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class StepChange:
    """Reason why a step's result would not stand any more.

    ``fields`` of its definition differ, as do ``dependencies`` it keeps, and ``decisions`` that fell otherwise;
    ``base``: the plans began at different commits.
    """

    fields: tuple[str, ...] = ()
    dependencies: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    base: bool = False

    def __bool__(self) -> bool:
        return bool(self.fields or self.dependencies or self.decisions or self.base)

    @property
    def text(self) -> str:
        """The reasons in a line."""
        said: list[str] = []
        if self.fields:
            said.append(f"{', '.join(self.fields)} {'differ' if len(self.fields) > 1 else 'differs'}")
        if self.dependencies:
            said.append(f"depends on {', '.join(self.dependencies)}, changed")
        said += [f"different choice for decision {name}" for name in self.decisions]
        if self.base:
            said.append("different base commit")
        return "; ".join(said)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDiff:
    """Steps by id, in the order of the plan they are in. ``limits`` names fields that differ without changing a key."""

    unchanged: tuple[str, ...]
    changed: Mapping[str, StepChange]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    limits: Mapping[str, tuple[str, ...]]

    def as_document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "unchanged": list(self.unchanged),
            "changed": [
                {
                    "id": step_id,
                    "fields": list(change.fields),
                    "dependencies": list(change.dependencies),
                    "decisions": list(change.decisions),
                    "base_commit": change.base,
                }
                for step_id, change in self.changed.items()
            ],
            "added": list(self.added),
            "removed": list(self.removed),
            "limits": {step_id: list(names) for step_id, names in self.limits.items()},
        }


def diff(old: KeyedPlan, new: KeyedPlan) -> PlanDiff:
    """Return what differs from ``old`` to ``new``; what has the same content key is unchanged."""
    common = [step_id for step_id in new.steps if step_id in old.steps]
    changed: dict[str, StepChange] = {}
    limits: dict[str, tuple[str, ...]] = {}
    for step_id in common:
        change = change_of(step_id, old, new)
        if change:
            changed[step_id] = change
        if other := _differing(old.limits(step_id), new.limits(step_id)):
            limits[step_id] = other
    return PlanDiff(
        unchanged=tuple(step_id for step_id in common if step_id not in changed),
        changed=changed,
        added=tuple(step_id for step_id in new.steps if step_id not in old.steps),
        removed=tuple(step_id for step_id in old.steps if step_id not in new.steps),
        limits=limits,
    )


def change_of(step_id: str, old: KeyedPlan, new: KeyedPlan) -> StepChange:
    """Return why a step that both have has another key in the new one; false if it has the same."""
    base = old.base_commit != new.base_commit
    if old.works[step_id] == new.works[step_id]:
        return StepChange(base=base)
    kept = [edge.step for edge in new.steps[step_id].dependencies if edge.step in old.steps]
    return StepChange(
        fields=_differing(old.definition(step_id), new.definition(step_id)),
        dependencies=tuple(each for each in dict.fromkeys(kept) if old.works[each] != new.works[each]),
        decisions=_differing(old.reached(step_id), new.reached(step_id)),
        base=base,
    )


def _differing(old: Mapping[str, object], new: Mapping[str, object]) -> tuple[str, ...]:
    """Names whose values differ; one that only the new or only the old has counts as a field's difference."""
    names = dict.fromkeys((*new, *old))
    return tuple(name for name in names if old.get(name) != new.get(name))
