"""A program's arguments: each parameter accepts what it should, and anything else gets one sentence that names it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from vibe.sdk import Home, Session, UsageError, make_plan, query, resume_plan, run_plan, tool
from vibe.sdk.options import KINDS, MakePlanOptions, PlanOptions, PromptOptions, QueryOptions, SessionOptions

Called = Callable[..., object]


def sent(**given: Any) -> object:
    """Send a prompt to a session."""
    return Session().send(**given)


def steered(**given: Any) -> object:
    """Steer the agent of a run."""
    run = query("Hi")
    run._work.is_used = True  # pyright: ignore[reportPrivateUsage]  or it warns that nothing was done
    return run.steer(**given)


def tooled(**given: Any) -> object:
    """Make a function a tool."""
    return tool(**given)(len)


FUNCTIONS: Mapping[str, tuple[Called, Any, dict[str, Any]]] = {
    "query": (query, QueryOptions, {"prompt": "Hi", "output": None}),
    "Session": (Session, SessionOptions, {}),
    "send": (sent, PromptOptions, {"prompt": "Hi", "output": None}),
    "run_plan": (run_plan, PlanOptions, {"plan": {"version": 1}}),
    "resume_plan": (resume_plan, PlanOptions, {"plan_id": "4f1c2a"}),
    "make_plan": (make_plan, MakePlanOptions, {"goal": "g"}),
    "steer": (steered, None, {"text": "t", "step": ""}),
    "tool": (tooled, None, {"name": "t", "description": "", "permission": "ask", "read_only": False}),
    "Home": (Home, None, {"folder": None, "environ": None}),
}
WRONG: Mapping[str, tuple[object, ...]] = {
    **dict.fromkeys(KINDS, (b"x", [None], {3: 4}, 3, 1.5, "", "\udcff")),
    **dict.fromkeys(("prompt", "instructions", "text", "step", "name", "description"), (b"x", ["x"], 3, "\udcff")),
    **dict.fromkeys(("max_parallel", "max_tokens", "max_turns"), (True, 0, 1.5, float("inf"), "3")),
    **dict.fromkeys(("max_price", "time_limit"), (True, 0, float("nan"), float("inf"), "3")),
    **dict.fromkeys(("fork", "trust", "check", "read_only"), (0, 1, "no", [])),
    "output": (b"x", "Answer", {3: 4}, lambda: None),
    "approve": (1, "yes", False, []),
    "executor": ("", 3, object, object()),
    "workdir": (None, "", "a\0b", 3, b"x"),
}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_value_of_the_wrong_kind_is_one_sentence_that_names_the_parameter(function: str) -> None:
    call, kind, right = FUNCTIONS[function]
    for name in (*right, *(kind.__annotations__ if kind else ())):
        for wrong in WRONG[name]:
            with pytest.raises(UsageError) as caught:
                call(**{**right, name: wrong})
            assert str(caught.value).startswith(f"{name}="), (name, wrong)


def test_of_a_long_value_only_the_beginning_is_told() -> None:
    with pytest.raises(UsageError) as caught:
        query("a" * 10_000 + "\udcff")

    assert len(str(caught.value)) < 300


def test_a_resume_runs_the_steps_it_was_begun_with() -> None:
    with pytest.raises(UsageError, match=r"^only=: "):
        resume_plan("4f1c2a", only=["a"])
