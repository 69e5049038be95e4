"""Values that steps hand in, the worth of their checks, and their common spending limits, on the command line.

Covers ``vibe.app.plan``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.conftest import VibeCommand

WritePlan = Callable[..., str]

SCHEMA = {
    "type": "object",
    "required": ["modules"],
    "properties": {"modules": {"type": "array", "items": {"type": "string"}}},
}


def step(step_id: str, mode: str = "code", **fields: Any) -> dict[str, Any]:
    return {"id": step_id, "title": f"Step {step_id}", "mode": mode, "prompt": "Do it.", **fields}


def calls(*given: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments} for name, arguments in given]}


def replay(vibe: VibeCommand, **agents: list[dict[str, Any]]) -> None:
    vibe.replay({"agents": {name: {"turns": turns} for name, turns in agents.items()}})


def handing(value: Any, summary: str = "") -> dict[str, Any]:
    return calls(("hand_in", {"value": value, "summary": summary}))


@pytest.mark.parametrize("executor", ["local", "process"])
def test_what_a_step_hands_in_reaches_the_record_and_its_dependants(
    vibe: VibeCommand, write_plan: WritePlan, executor: str
) -> None:
    modules = {"modules": ["a.py", "b.py"]}
    replay(
        vibe,
        survey=[handing({"modules": "a.py"}), handing(modules, "two modules")],
        use=[{"text": "used"}],
    )
    plan = write_plan(step("survey", "research", output_schema=SCHEMA), step("use", depends_on=["survey"]))

    lines = vibe("plan", "run", "--executor", executor, "--output", "streaming", plan).lines

    survey, use = lines[-1]["steps"]
    assert (survey["status"], survey["output"], survey["summary"]) == ("completed", modules, "two modules")
    assert use["status"] == "completed"
    refused = [line for line in lines if line["type"] == "tool.result" and line["status"] == "error"]
    assert "value.modules: 'a.py' is not an array" in refused[0]["content"]
    prompts = [
        line["text"] for line in lines if line["type"] == "user.message" and line.get("subagent_step_id") == "use"
    ]
    assert f"Output: {json.dumps(modules)}" in prompts[0]


def test_a_step_that_hands_nothing_in_fails_and_stops_what_depends_on_it(
    vibe: VibeCommand, write_plan: WritePlan
) -> None:
    replay(vibe, survey=[{"text": "a.py and b.py"}] * 2)
    plan = write_plan(step("survey", "research", output_schema=SCHEMA), step("use", depends_on=["survey"]))

    ended = vibe("plan", "run", "--output", "json", plan)

    survey, use = ended.document["steps"]
    assert (ended.code, survey["status"], survey["reason"]) == (1, "failed", "output")
    assert "hand_in" in survey["detail"]
    assert use["status"] == "blocked"


def test_a_long_value_is_referred_to_in_the_result_file(vibe: VibeCommand, write_plan: WritePlan) -> None:
    long = {"modules": [f"module_{number}.py" for number in range(4_000)]}
    replay(vibe, survey=[handing(long)], use=[{"text": "used"}])
    plan = write_plan(step("survey", "research", output_schema=SCHEMA), step("use", depends_on=["survey"]))
    vibe("plan", "run", plan)
    folder = vibe.home / "plans" / vibe.plan_ids()[0] / "steps"
    first = json.loads((folder / "use" / "messages.jsonl").read_text().splitlines()[0])["content"]
    file = folder / "survey" / "result.json"

    assert f"whole as `output` in {file}" in first
    assert json.loads(file.read_text())["output"] == long


def test_a_plan_whose_schema_is_none_is_refused_with_the_place(vibe: VibeCommand, write_plan: WritePlan) -> None:
    ended = vibe("plan", "validate", write_plan(step("a", output_schema={"properties": {"x": {"type": "text"}}})))

    assert ended.code == 2
    assert "steps[0].output_schema.properties.x.type: is not a valid JSON Schema: 'text'" in ended.err


WEAKER = {"path": "tests/test_it.sh", "content": "exit 0\n", "overwrite": True}


@pytest.mark.parametrize(
    ("turns", "kept"),
    [
        pytest.param([calls(("read_file", {"path": WEAKER["path"]})), calls(("write_file", WEAKER))], True, id="tools"),
        pytest.param([calls(("bash", {"command": "echo true > tests/test_it.sh"}))], False, id="shell"),
    ],
)
def test_an_agent_can_not_weaken_its_check(
    vibe: VibeCommand, write_plan: WritePlan, turns: list[dict[str, Any]], *, kept: bool
) -> None:
    check = vibe.workdir / "tests" / "test_it.sh"
    check.parent.mkdir()
    check.write_text("test -f made\n")
    replay(vibe, work=[*turns, *([{"text": "Done."}] * 3)])
    plan = write_plan(step("work", verify=["sh tests/test_it.sh"]))

    record = vibe("plan", "run", "--auto-approve", "--output", "json", plan).document

    work = record["steps"][0]
    assert (record["exit_code"], work["status"], work["reason"]) == (1, "failed", "verify")
    assert (check.read_text() == "test -f made\n") is kept
    assert ("tests/test_it.sh, which this step's checks run, changed" in work["detail"]) is not kept


@pytest.mark.parametrize("executor", ["local", "process"])
@pytest.mark.parametrize("mended", [True, False], ids=["mended", "insisting"])
def test_an_agent_can_not_turn_what_its_check_does(
    vibe: VibeCommand, write_plan: WritePlan, executor: str, *, mended: bool
) -> None:
    (vibe.workdir / "test_made.py").write_text(
        "import unittest\nclass Made(unittest.TestCase):\n    def test(self):\n        open('made').close()\n"
    )
    turning = calls(("bash", {"command": "echo 'raise SystemExit(0)' > unittest.py"}))
    mending = calls(("bash", {"command": "rm unittest.py; touch made" if mended else "true"}))
    replay(vibe, work=[turning, {"text": "Done."}, mending, {"text": "It passes."}])
    plan = write_plan(step("work", verify=["python3 -m unittest -q test_made.py"], max_repairs=1))

    record = vibe("plan", "run", "--auto-approve", "--output", "json", "--executor", executor, plan).document

    work = record["steps"][0]
    assert (work["status"], work.get("reason")) == (("completed", None) if mended else ("failed", "verify"))
    assert (
        "unittest.py was created in this step, and it configures its checks: restore it" in work.get("detail", "")
    ) is not mended


def test_a_person_who_has_a_step_done_again_decides_what_its_checks_are(
    vibe: VibeCommand, write_plan: WritePlan
) -> None:
    check = vibe.workdir / "test_it.sh"
    check.write_text("false\n")
    shell = calls(("bash", {"command": "echo true > test_it.sh"}))
    replay(vibe, work=[shell, {"text": "Done."}])
    vibe("plan", "run", "--auto-approve", write_plan(step("work", verify=["sh test_it.sh"])))
    plan_id = vibe.plan_ids()[0]
    replay(vibe, work=[{"text": "Done."}])

    vibe("plan", "retry", plan_id, "work")
    record = vibe("plan", "resume", plan_id, "--output", "json").document

    assert (record["outcome"], record["steps"][0]["status"]) == ("completed", "completed")


def test_fifty_steps_side_by_side_keep_to_the_plans_budget(vibe: VibeCommand, write_plan: WritePlan) -> None:
    limit, answer, prompt = 100_000, 500, 2_000
    usage = {"prompt_tokens": prompt, "completion_tokens": 2 * answer}  # twice what is asked for
    turns = [{**calls(("glob", {"pattern": f"*.{n}"})), "usage": usage} for n in range(9)]
    vibe.replay({"agents": {"*": {"turns": [*turns, {"text": "Done.", "usage": usage}]}}})
    config = vibe.home / "config.toml"
    config.write_text(config.read_text() + f"max_output_tokens = {answer}\n")
    plan = write_plan(
        *(step(f"s{n}", "research", retries=1) for n in range(50)),
        budget={"max_tokens": limit},
        max_parallel_steps=50,
    )

    ended = vibe("plan", "run", "--output", "json", plan)

    used = ended.document["usage"]
    spent = used["prompt_tokens"] + used["completion_tokens"]
    assert ended.code == 4
    assert limit * 0.8 < spent <= limit + prompt + answer


@pytest.mark.parametrize("executor", ["local", "process"])
@pytest.mark.parametrize(
    ("path", "metadata", "written"),
    [
        pytest.param("src/made.py", {}, True, id="named"),
        pytest.param("other.py", {}, False, id="not named"),
        pytest.param("src/.env", {}, False, id="may hold secrets"),
        pytest.param("src/made.py", {"origin": "model"}, False, id="by a model, read by nobody"),
    ],
)
def test_files_that_the_plan_of_a_person_names_are_edited_unasked(
    vibe: VibeCommand, write_plan: WritePlan, executor: str, path: str, metadata: dict[str, str], *, written: bool
) -> None:
    replay(vibe, work=[calls(("write_file", {"path": path, "content": "x = 1\n"})), {"text": "Done."}])
    plan = write_plan(step("work", writes=["src/**"]), metadata=metadata)

    record = vibe("plan", "run", "--output", "json", "--executor", executor, plan).document

    assert (vibe.workdir / path).exists() is written
    assert record["exit_code"] == 0 or not written
