"""A client's plan document and the budget of a call, put together as a plan that can be run."""

from __future__ import annotations

import json
from collections.abc import Mapping

from planner.author.output_repair import MODEL_ORIGIN, ORIGIN
from planner.plan.loader import YAML, LoadedPlan, load_plan
from vibe.app.engine.result_record import RunRecord

LEAST_PRICE = 1e-9


def read_document(document: Mapping[str, object] | str, budget: Mapping[str, float]) -> LoadedPlan:
    """Return a client's plan: one that a model wrote, as far as commands and writing go, with that budget.

    Raises:
        PlanInvalidError: it is no plan; every problem is told.
    """
    where = "the plan"
    if isinstance(document, str):
        loaded = load_plan(document, where=where, form=YAML)  # JSON is YAML
    else:
        loaded = load_plan(json.dumps(document), where=where)
    return bounded(loaded, budget, {ORIGIN: MODEL_ORIGIN})


def bounded(loaded: LoadedPlan, budget: Mapping[str, float], metadata: Mapping[str, str] | None = None) -> LoadedPlan:
    """Return a plan with these limits and notes over its own."""
    document = json.loads(loaded.source_bytes)
    if budget:
        document["budget"] = {**(document.get("budget") or {}), **budget}
    if metadata:
        document["metadata"] = {**(document.get("metadata") or {}), **metadata}
    return load_plan(json.dumps(document, indent=2, ensure_ascii=False) + "\n", where=loaded.where)


def left_of(budget: Mapping[str, float], planned: RunRecord) -> dict[str, float]:
    """Return the budget without what planning took; at least the least there may be."""
    left = dict(budget)
    if "max_tokens" in left:
        left["max_tokens"] = max(1, int(left["max_tokens"]) - planned.usage.total_tokens)
    if "max_price" in left:
        left["max_price"] = max(LEAST_PRICE, left["max_price"] - (planned.cost_usd or 0.0))
    return left
