"""The words of the published JSON Schema: what an editor shows beside each field of a plan file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.model import FORMAT_VERSION

_SETTINGS: Mapping[str, str] = {
    "command": "Modes run and test only: run this shell command, with no model at all.",
    "decision": "The decision this step waits for.",
    "when": "Run only if these decisions fell so, else the step is skipped: decision id to option ids.",
    "verify": "Commands that must exit 0 after the subagent says it is done; it may not change the files they "
    "consist of or are steered by.",
    "max_repairs": "How often a failing verification goes back to the same subagent.",
    "output_schema": "A JSON Schema: the step must end by handing in a value that fits; what depends on it gets the value.",
    "writes": "Globs below the workspace's root that this step may write; null: unknown, so it writes alone.",
    "workspace": "Where the step works: in the user's own files, or in a git worktree of its own that is merged back.",
    "network": "How far its confined commands reach: servers of their own on localhost, or everything; null: as the settings "
    "say.",
    "allowed_tools": "The tools it may use: names, globs or re: patterns; null: those of its mode.",
    "denied_tools": "Tools it may not use: names, globs or re: patterns.",
    "agent": "The agent profile.",
    "model": "The model.",
    "max_tokens": "Budget of the step, prompt and completion tokens together; not set: what is configured for its mode.",
    "max_turns": "Budget of the step in model calls; not set: what is configured for its mode.",
    "max_price": "Budget of the step in USD.",
    "timeout_seconds": "How long one attempt may take.",
    "retries": "Fresh attempts after a failure, with growing pauses between.",
    "on_failure": (
        "stop: what depends on the step stays blocked; continue: it runs, told of the failure; ask: somebody decides "
        "(retry, skip or stop); replan: a model changes the plan, else as stop."
    ),
    "idle_seconds": "Without any event for so long, the step is stuck and fails.",
    "side_effects": "It acts outside the workspace (deploys, sends): never run again by itself.",
    "priority": "The higher, the earlier, among steps that could start.",
}

DESCRIPTIONS: Mapping[str, Mapping[str, str]] = {
    "Plan": {
        "version": "The format's version.",
        "goal": "What the whole plan must achieve.",
        "context": "Background that every step's subagent is given.",
        "steps": "The work, as a directed acyclic graph.",
        "decisions": "Choices a person or a flag must make.",
        "max_parallel_steps": "How many steps may run side by side.",
        "budget": "Limits of the whole plan.",
        "defaults": "Fields for every step that does not set them itself.",
        "sample": "A demonstration's surroundings.",
        "metadata": "Anything; carried through untouched.",
    },
    "Step": {
        "id": "Unique in the plan.",
        "title": "One line for people.",
        "mode": "What kind of work it is: picks guidance, tools and icon.",
        "prompt": "What the subagent is told to do; the title if left out.",
        "depends_on": "Steps that come first; `on` says how they must have ended, completed if left out.",
        **_SETTINGS,
    },
    "StepSettings": _SETTINGS,
    "Dependency": {"step": "The other step.", "on": "How it must have ended: finished is any end."},
    "Decision": {
        "id": "Unique among the decisions.",
        "question": "What is asked.",
        "options": "The answers to choose from.",
        "multi_select": "Whether several may be chosen.",
        "default": "The option, or options, taken when nobody answers in time.",
        "timeout_seconds": "How long to wait for an answer; 0: for ever.",
    },
    "Option": {"id": "Unique in its decision.", "label": "What a person reads.", "description": "More about it."},
    "PlanBudget": {
        "max_tokens": "Prompt and completion tokens of all steps together.",
        "max_price": "USD, all steps together.",
        "max_seconds": "From the first step's start.",
    },
    "Sample": {
        "project": "A folder below the plan's; the plan runs on a fresh copy of it.",
        "replay": "A script of model turns that are replayed unless the user names a model.",
    },
}


def described(schema: dict[str, Any]) -> dict[str, Any]:
    """The generated schema of Plan with its title, and every field's description in place."""
    for name, definition in {**schema["$defs"], "Plan": schema}.items():
        for field, words in DESCRIPTIONS.get(name, {}).items():
            definition["properties"][field]["description"] = words
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "vibe plan"
    schema["description"] = (
        "A plan that `vibe plan run` executes: steps, the edges between them and the decisions they wait for. "
        f"Format version {FORMAT_VERSION}."
    )
    return schema
