"""The output of ``vibe plan run --dry-run`` about a run that does not happen.

Covers ``vibe.app.plan``.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.e2e.conftest import VibeCommand, command_step

WritePlan = Callable[..., str]

ASKED = {
    "id": "go",
    "question": "Go on?",
    "options": [{"id": "yes", "label": "Yes"}, {"id": "no", "label": "No"}],
    "default": "yes",
}


def test_bounds_needs_and_decisions_are_told_and_nothing_is_written(vibe: VibeCommand, write_plan: WritePlan) -> None:
    vibe.replay({"agents": {}})
    before = sorted(vibe.home.rglob("*"))
    plan = write_plan(
        {"id": "look", "title": "Look", "mode": "research", "max_tokens": 1000, "max_turns": 3, "retries": 1},
        {"id": "one", "title": "One", "mode": "code", "writes": ["src/*.py"], "depends_on": ["look"], "max_tokens": 500},
        {"id": "two", "title": "Two", "mode": "docs", "writes": ["src/a.py"], "depends_on": ["look"], "max_tokens": 500,
         "verify": ["make check"], "decision": "go"},
        command_step("say", "echo done", depends_on=["one", "two"]),
        decisions=[ASKED],
    )  # fmt: skip

    ended = vibe("plan", "run", "--dry-run", plan)

    assert (ended.code, ended.err) == (0, "")
    for said in (
        "  2. one, two",
        "Tokens, worst case: 3,000 in 3 model-driven steps (no price limit)",
        "Model calls, worst case: 106, 66 of them in the longest chain",
        "note: one and two edit the same files, so they take turns",
        "  look: replay; glob, grep, list_dir, read_file, task, todo",
        "  go (yes / no), open, default yes: Go on?",
        "  two: make check",
        "Nothing was run.",
    ):
        assert said in ended.out
    facts = vibe("plan", "run", "--dry-run", "--decide", "go=no", "--output", "json", plan).document
    assert facts["decisions"][0]["given"] == ["no"]
    assert facts["overlaps"] == [{"first": "one", "second": "two", "shared": True}]
    assert (facts["max_tokens"], facts["problems"]) == (3000, [])
    assert facts["steps"][1]["tools"] != facts["steps"][0]["tools"]
    assert sorted(vibe.home.rglob("*")) == before


def test_what_is_missing_is_named_and_the_code_is_what_the_run_would_end_with(
    vibe: VibeCommand, write_plan: WritePlan
) -> None:
    step = {"id": "a", "title": "A", "mode": "research"}
    no_key = vibe("plan", "run", "--dry-run", write_plan(step))
    no_agent = vibe("plan", "run", "--dry-run", write_plan({**step, "agent": "nobody"}))

    assert no_key.code == 3
    assert (
        "It can't start:\n  no API key for provider 'mistral': set the environment variable MISTRAL_API_KEY"
        in no_key.out
    )
    assert no_agent.code == 2
    assert "nobody" in no_agent.out.partition("It can't start:")[2]
    no_repository = vibe("plan", "run", "--dry-run", write_plan(command_step("a", "true", workspace="worktree")))
    assert no_repository.code == 2
    assert "it is not a git repository" in no_repository.out.partition("It can't start:")[2]
    no_cluster = vibe("plan", "run", "--dry-run", write_plan(command_step("a", "true")), "--cluster", "local:0")
    assert no_cluster.code == 2
    assert "'local:0' is not a cluster's address" in no_cluster.out.partition("It can't start:")[2]
    no_project = vibe("plan", "run", "--dry-run", write_plan(command_step("a", "true"), sample={"project": "gone"}))
    assert no_project.code == 2
    assert "gone' is not a folder: keep it beside the plan file" in no_project.err
    assert not vibe.home.exists()


def test_it_says_what_a_run_about_some_steps_would_be_about(vibe: VibeCommand, write_plan: WritePlan) -> None:
    plan = write_plan(command_step("a", "true"), command_step("b", "true", depends_on=["a"]), command_step("c", "true"))
    vibe("plan", "run", plan)

    facts = vibe(
        "plan", "run", "--dry-run", "--only", "b", "--reuse", vibe.plan_ids()[0], "--output", "json", plan
    ).document

    assert (facts["runs"], facts["taken_over"], facts["left_out"]) == (["b"], ["a", "c"], [])
    assert len(vibe.plan_ids()) == 1
