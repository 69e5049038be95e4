"""The strict loader: what passes, what is refused, and in which words."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings, strategies as st

from planner.plan.diagnostics import PlanInvalidError, Problem
from planner.plan.loader import LoadedPlan, load_plan, plan_json_schema, read_plan_file
from planner.plan.strict_json import MAX_BYTES
from tests.unit.planner.scripted_run import choice, step

EXAMPLES = Path(__file__).parents[4] / "plans-examples"


def document(*steps: dict[str, Any], **fields: object) -> dict[str, Any]:
    return {"version": 1, "goal": "a goal", "steps": list(steps or [step("a")]), **fields}


def load(raw: object) -> LoadedPlan:
    return load_plan(raw if isinstance(raw, (str, bytes)) else json.dumps(raw), where="plan.json")


def problems_of(raw: object) -> tuple[Problem, ...]:
    with pytest.raises(PlanInvalidError) as caught:
        load(raw)
    assert caught.value.where == "plan.json"
    assert str(caught.value).startswith("plan.json:")
    return caught.value.problems


def test_a_full_plan_loads_with_its_defaults_in_its_steps() -> None:
    raw = document(
        step("a", mode="run", command="make", retries=2, timeout_seconds=60),
        step("b", "a", "c", mode="code", prompt="Do it", writes=["src/**"]),
        step("c", {"step": "a", "on": "finished"}, decision="q", when={"q": ["x"]}, denied_tools=["re:web_.*", "b*"]),
        decisions=[choice("q", "x", "y", default="x", timeout_seconds=5)],
        defaults={"max_turns": 3, "retries": 1, "on_failure": "continue"},
        budget={"max_tokens": 100_000, "max_price": 1.5, "max_seconds": 60},
        context="background",
        max_parallel_steps=4,
        sample={"project": "quickstart/project", "replay": "replay.jsonl"},
        metadata={"anything": [1, {"a": None}]},
    )
    loaded = load(raw)
    assert [s.retries for s in loaded.plan.steps] == [2, 1, 1]
    assert {s.max_turns for s in loaded.plan.steps} == {3}
    assert loaded.plan.resolved() == loaded.plan
    assert loaded.plan.metadata == raw["metadata"]
    assert loaded.dag.order == ("a", "c", "b")
    assert loaded.source_bytes == json.dumps(raw).encode()


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.json")), ids=lambda path: path.stem)
def test_every_example_loads_and_fits_the_published_schema(path: Path) -> None:
    assert read_plan_file(path).plan.steps
    jsonschema.validate(json.loads(path.read_bytes()), plan_json_schema())


def test_a_byte_order_mark_is_tolerated() -> None:
    assert load(b"\xef\xbb\xbf" + json.dumps(document()).encode()).source_bytes.startswith(b"\xef\xbb\xbf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bad:
    raw: Any
    path: str
    says: str


DECISIONS = [choice("q", "x", "y")]

BAD = [
    Bad(raw=document(step("a", "bilud"), step("build")), path="steps[0].depends_on[0]", says="did you mean 'build'?"),
    Bad(raw=document(step("a", "zzz")), path="steps[0].depends_on[0]", says="unknown step 'zzz'"),
    Bad(raw=document(step("a"), step("a")), path="steps[1].id", says="'a' is already the id of steps[0]"),
    Bad(raw=document(step("a", "a")), path="steps[0].depends_on[0]", says="can't depend on itself"),
    Bad(raw=document(step("a"), step("b", "a", "a")), path="steps[1].depends_on[1]", says="listed twice"),
    Bad(
        raw=document(step("a", "b"), step("b", "c"), step("c", "a")),
        path="steps[0].depends_on",
        says="the steps form a cycle: a -> b -> c -> a",
    ),
    Bad(
        raw=document(step("a"), step("b", {"step": "a", "on": "done"})),
        path="steps[1].depends_on[0].on",
        says="'done' is not one of 'completed', 'finished' or 'failed'",
    ),
    Bad(raw=document(step("a", decision="q")), path="steps[0].decision", says="unknown decision 'q'"),
    Bad(raw=document(step("a", when={"q": ["x"]})), path="steps[0].when.q", says="unknown decision 'q'"),
    Bad(
        raw=document(step("a", when={"q": ["z"]}), decisions=DECISIONS),
        path="steps[0].when.q",
        says="decision 'q' has no option 'z'; its options are x, y",
    ),
    Bad(raw=document(step("a", when={"q": []}), decisions=DECISIONS), path="steps[0].when.q", says="names no option"),
    Bad(raw=document(defaults={"decision": "no"}), path="defaults.decision", says="unknown decision 'no'"),
    Bad(raw=document(step("a", mode="code", command="x")), path="steps[0].command", says="can't run in mode 'code'"),
    Bad(
        raw=document(step("a", mode="docs"), defaults={"command": "x"}),
        path="steps[0]",
        says="the command of `defaults` can't run in mode 'docs'",
    ),
    Bad(raw=document(step("a", mode="run", command="x", prompt="y")), path="steps[0].prompt", says="not both"),
    Bad(raw=document(step("a", promt="x")), path="steps[0].promt", says="is not a field; did you mean 'prompt'?"),
    Bad(raw=document(stesp=1), path="stesp", says="did you mean 'steps'?"),
    Bad(raw=document(**{"a b\n": 1}), path=r"['a b\n']", says="is not a field"),
    Bad(raw=document(defaults={"id": "a"}), path="defaults.id", says="is not a field"),
    Bad(raw=document(budget={"max_token": 1}), path="budget.max_token", says="did you mean 'max_tokens'?"),
    Bad(raw=document(budget={"tokens": 1}), path="budget.tokens", says="did you mean 'max_tokens'?"),
    Bad(raw=document(step("a", timeout=5)), path="steps[0].timeout", says="did you mean 'timeout_seconds'?"),
    Bad(raw=document(step("a", mode="cod")), path="steps[0].mode", says="did you mean 'code'?"),
    Bad(raw=document(step("a", title=" ")), path="steps[0].title", says="must not be blank"),
    Bad(raw=document(step("a", title="a\nb")), path="steps[0].title", says="must be one line"),
    Bad(raw=document(step("a", prompt="")), path="steps[0].prompt", says="must not be blank"),
    Bad(
        raw=document(step("a", needs={"gpu": True})),
        path="steps[0].needs.gpu",
        says="must be an amount above 0, or the text",
    ),
    Bad(raw=document(step("a", needs={"g pu": 1})), path="steps[0].needs['g pu']", says="'g pu' is not an id"),
    Bad(raw=document(step("A b")), path="steps[0].id", says="'A b' is not an id; use a-z"),
    Bad(raw=document(step("a\n")), path="steps[0].id", says="is not an id"),
    Bad(raw=document(step("a", retries="2")), path="steps[0].retries", says="must be a whole number, not '2'"),
    Bad(
        raw=document(step("a", retries=True)), path="steps[0].retries", says="must be a whole number, not a truth value"
    ),
    Bad(raw=document(step("a", retries=-1)), path="steps[0].retries", says="must be at least 0, not -1"),
    Bad(raw=document(step("a", max_tokens=10**30)), path="steps[0].max_tokens", says="must be at most 1000000000000"),
    Bad(raw=document(step("a", verify="x")), path="steps[0].verify", says="must be a list, not 'x'"),
    Bad(
        raw=document({**step("a"), "depends_on": [[1]]}),
        path="steps[0].depends_on[0]",
        says="must be a step id or an object, not a list",
    ),
    Bad(
        raw=document(step("a"), decisions=[{**choice("d", "x", "y"), "default": {"x": 1}}]),
        path="decisions[0].default",
        says="must be a list, not an object",
    ),
    Bad(raw=document(step("a", 5)), path="steps[0].depends_on[0]", says="must be a step id or an object, not 5"),  # type: ignore[arg-type]
    Bad(raw=document(5), path="steps[0]", says="must be an object, not 5"),  # type: ignore[arg-type]
    Bad(raw=document(steps=[]), path="steps", says="must have at least 1 entry, not 0"),
    Bad(raw=document(steps=None), path="steps", says="must be a list, not null"),
    Bad(raw=document(*[step("a")] * 10_001), path="steps", says="must have at most 10000 entries, not 10001"),
    Bad(raw={"version": 1, "steps": [step("a")]}, path="goal", says="is required"),
    Bad(raw={"goal": "g", "steps": [step("a")]}, path="version", says="is required"),
    Bad(raw=document(version=2, future=1), path="version", says="2 is not a plan format this vibe reads; use 1"),
    Bad(raw=document(version="1"), path="version", says="'1' is not a plan format"),
    Bad(raw=document(version=True), path="version", says="true is not a plan format"),
    Bad(raw=document(version=1.0), path="version", says="1.0 is not a plan format"),
    Bad(raw=document(step("a", allowed_tools=["re:("])), path="steps[0].allowed_tools[0]", says="'(' is not valid"),
    Bad(
        raw=document(step("a", allowed_tools=["re:(?=(a+)+b)"])),
        path="steps[0].allowed_tools[0]",
        says="may take too long",
    ),
    Bad(raw=document(step("a", denied_tools=["web_[a"])), path="steps[0].denied_tools[0]", says="not closed"),
    Bad(raw=document(decisions=[choice("q", "x")]), path="decisions[0].options", says="at least 2 entries, not 1"),
    Bad(raw=document(decisions=[choice("q", "x", "x")]), path="decisions[0].options", says="two options have the id"),
    Bad(raw=document(decisions=DECISIONS * 2), path="decisions[1].id", says="the id of another decision"),
    Bad(
        raw=document(decisions=[choice("q", "x", "y", default="z")]), path="decisions[0].default", says="unknown option"
    ),
    Bad(
        raw=document(decisions=[choice("q", "x", "y", default=["x", "y"])]),
        path="decisions[0].default",
        says='or set "multi_select": true',
    ),
    Bad(
        raw=document(decisions=[choice("q", "x", "y", multi_select=True, default=[])]),
        path="decisions[0].default",
        says="names no option",
    ),
    Bad(
        raw=document(step("a", output_schema={"properties": {"x": {"type": "int"}}})),
        path="steps[0].output_schema.properties.x.type",
        says="is not a valid JSON Schema: 'int'",
    ),
    Bad(
        raw=document(defaults={"output_schema": {"$ref": "#/$defs/gone"}}),
        path="defaults.output_schema['$ref']",
        says="'#/$defs/gone' leads nowhere",
    ),
    Bad(
        raw=document(step("a", mode="run", command="ls", output_schema={})),
        path="steps[0].output_schema",
        says="so it can't return a value",
    ),
    Bad(
        raw=document(step("a", side_effects=True, retries=1)),
        path="steps[0].retries",
        says="never retried automatically",
    ),
    Bad(
        raw=document(step("a", side_effects=True), defaults={"retries": 1}),
        path="steps[0].retries",
        says='use 0, and "on_failure": "ask"',
    ),
    Bad(
        raw=document(step("a", side_effects=True), defaults={"on_failure": "replan"}),
        path="steps[0].on_failure",
        says="no revision can fix it",
    ),
    Bad(raw=document(sample={"project": "/etc"}), path="sample.project", says="is outside the plan's folder"),
    Bad(raw=document(sample={"project": "a/../../b"}), path="sample.project", says="is outside the plan's folder"),
    Bad(
        raw=document(sample={"project": "a", "replay": "C:\\x"}),
        path="sample.replay",
        says="is outside the plan's folder",
    ),
    Bad(raw=document(sample={"project": " ~/x"}), path="sample.project", says="is outside the plan's folder"),
    Bad(raw="", path="", says="is not JSON: Expecting value; use no comments"),
    Bad(raw='{"version": 1,', path="", says="is not JSON: Expecting"),
    Bad(raw="[]", path="", says="a plan must be an object, not a list"),
    Bad(raw="null", path="", says="not null"),
    Bad(raw='{"steps": [{"id": "a", "id": "b"}]}', path="steps[0].id", says="is given twice"),
    Bad(raw='{"budget": {"max_price": NaN}}', path="budget.max_price", says="not a finite number"),
    Bad(raw='{"budget": {"max_price": 1e999}}', path="budget.max_price", says="not a finite number"),
    Bad(raw='{"goal": "a\\u0000"}', path="goal", says="NUL"),
    Bad(raw='{"goal": "\\ud800"}', path="goal", says="half a surrogate"),
    Bad(raw='{"metadata": {"\\udfff": 1}}', path="metadata", says="half a surrogate"),
    Bad(raw='{"a": ' + "[" * 64 + "]" * 64 + "}", path="a[0][0][0]", says="nested deeper than 64"),
    Bad(raw="[" * 200_000, path="", says="nested deeper than 64"),
    Bad(raw='{"a": ' + "9" * 5000 + "}", path="", says="thousands of digits"),
    Bad(raw=b"\xff\xfe{\x00}\x00", path="", says="is not valid UTF-8 at byte 0"),
    Bad(raw="\ud800", path="", says="is not valid UTF-8"),
    Bad(raw=b" " * (MAX_BYTES + 1), path="", says="the limit is 16777216"),
]


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.says[:40])
def test_what_is_wrong_is_said_with_its_place_and_its_cure(bad: Bad) -> None:
    found = problems_of(bad.raw)
    assert [problem for problem in found if problem.path == bad.path and bad.says in str(problem)], found
    assert len(found) == 1, found


def test_without_re2_tools_are_named_or_globbed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)

    (problem,) = problems_of(document(step("a", allowed_tools=["re:(a+)+b", "read_*", "bash"])))

    assert problem.path == "steps[0].allowed_tools[0]"
    assert problem.message.endswith("may take too long: name tools, or install google-re2")


def test_every_problem_is_reported_at_once() -> None:
    raw = document(step("a", "nope", titel="x"), step("a", mode="code", command="x"), goal="", future=1)
    assert sorted(problem.path for problem in problems_of(raw)) == [
        "future",
        "goal",
        "steps[0].depends_on[0]",
        "steps[0].titel",
        "steps[1].command",
        "steps[1].id",
    ]


def test_the_message_shows_the_first_problems_and_counts_the_rest() -> None:
    with pytest.raises(PlanInvalidError) as caught:
        load(document(*[step(f"s{n}", f"gone-{n}") for n in range(60)]))
    lines = str(caught.value).splitlines()
    assert lines[0] == "plan.json: 60 problems:"
    assert lines[-1] == "  ... and 10 more"
    assert len(lines) == 52


def _named(name: str) -> Callable[[Path], Path]:
    return lambda folder: folder / name


def _directory(folder: Path) -> Path:
    return folder


def _fifo(folder: Path) -> Path:
    os.mkfifo(folder / "fifo")
    return folder / "fifo"


def _large(folder: Path) -> Path:
    (folder / "large").write_bytes(b" " * (MAX_BYTES + 1))
    return folder / "large"


def _latin(folder: Path) -> Path:
    (folder / "latin").write_bytes('{"goal": "é"}'.encode("latin-1"))
    return folder / "latin"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (_named("gone.json"), "no such file"),
        (_named("a\0b"), "can't be read"),
        (_named("x" * 5000), "can't be read: File name too long"),
        (_directory, "is a directory"),
        (_fifo, "is not a regular file"),
        (_large, "is larger than"),
        (_latin, "is not valid UTF-8"),
    ],
)
def test_a_file_that_can_not_be_read_says_why(tmp_path: Path, make: Callable[[Path], Path], says: str) -> None:
    path = make(tmp_path)
    with pytest.raises(PlanInvalidError, match=says) as caught:
        read_plan_file(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_a_plan_of_ten_thousand_steps_loads_in_time_and_so_does_its_refusal() -> None:
    steps = [
        step(f"s{n}", *{f"s{n - 1}", f"s{n // 2}"} if n else (), prompt="Do what must be done. " * 5)
        for n in range(10_000)
    ]
    begun = time.process_time()
    assert len(load(document(*steps)).dag.order) == 10_000
    assert time.process_time() - begun < 4  # 0.4 s on an idle machine
    for raw in steps:
        raw["depends_on"], raw["bogus"] = ["setp-1", "s99999"], 1
    begun = time.process_time()
    assert len(problems_of(document(*steps))) == 30_000
    assert time.process_time() - begun < 15  # 1 s on an idle machine


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["a", "q", "code"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
KEYS = ["id", "title", "mode", "depends_on", "when", "decision", "command", "prompt", "writes", "workspace", "retries"]
STEPS = st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), JSON, max_size=6).map(
    lambda extra: {"id": "a", "title": "t", "mode": "code"} | extra
)
FIELDS = ["steps", "goal", "decisions", "defaults", "sample", "budget", "metadata", "context", "max_parallel_steps"]
DOCUMENTS = st.fixed_dictionaries(
    {"version": st.just(1) | JSON, "goal": st.just("g") | JSON, "steps": st.lists(STEPS | JSON, max_size=4) | JSON},
    optional={name: JSON | st.lists(STEPS, max_size=2) for name in FIELDS[2:]},
)


@settings(max_examples=150, deadline=None)
@given(raw=DOCUMENTS | JSON)
def test_any_json_document_is_a_plan_or_refused_with_reasons(raw: object) -> None:
    refused: PlanInvalidError | None = None
    try:
        assert load(json.dumps(raw)).dag.order
    except PlanInvalidError as error:
        refused = error
    assert refused is None or (refused.problems and str(refused).encode())


@settings(max_examples=100, deadline=None)
@given(raw=st.binary(max_size=60) | st.text("{}[]\":,0e\\u'tna ", max_size=60))
def test_any_bytes_are_a_plan_or_refused_with_reasons(raw: bytes | str) -> None:
    with pytest.raises(PlanInvalidError):
        load(raw)


def test_the_schema_describes_the_format() -> None:
    schema = plan_json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["title"] == "vibe plan"
    assert "$id" not in schema
    assert schema["additionalProperties"] is False
    jsonschema.validate(document(step("b", "a", {"step": "a", "on": "failed"})), schema)
    for refused in (document(version=2), document(step("a", promt="x"))):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(refused, schema)


def test_the_schema_describes_every_field_in_one_line() -> None:
    schema = plan_json_schema()
    definitions: dict[str, Any] = {**schema["$defs"], "Plan": schema}
    fields = [field for d in definitions.values() for field in d.get("properties", {}).items()]
    assert {"verify", "goal", "max_seconds", "replay"} <= {name for name, _ in fields}
    assert [name for name, field in fields if "\n" in field.get("description", "\n")] == []
