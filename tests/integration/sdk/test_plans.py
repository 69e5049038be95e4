"""Plans of a program: with steps that are its functions and decisions of its own, and how they end."""

from __future__ import annotations

import asyncio  # noqa: TID251  programs use it
import logging
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Unpack, cast

import anyio
import pytest
from pydantic import BaseModel

from ipc.events import AssistantDeltaEvent, PlanDecisionEvent, PlanStepUpdateEvent
from tests.fakes.model_server import Received, Reply, ServedCall
from tests.integration.sdk.conftest import STOPS_MIDWAY, Program, calls
from vibe.app.inspect.usage import usage_summary
from vibe.sdk import (
    ApprovalRequest,
    Decision,
    NotCompleted,
    Option,
    Outcome,
    Plan,
    PlanResult,
    Run,
    Step,
    StepResult,
    StepTask,
    UsageError,
    make_plan,
    resume_plan,
    run_plan,
)
from vibe.sdk.options import PlanOptions

COUNTED = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
SHIP = Decision(id="ship", question="Ship it?", options=[Option(id="yes", label="Yes"), Option(id="no", label="No")])
GREETING = {"version": 1, "goal": "Greet ${inputs.who}", "steps": [{"id": "a", "title": "A", "mode": "code"}]}


class Count(BaseModel):
    count: int


def step(step_id: str, *after: str, **settings: Any) -> Step:
    return Step.model_validate({"id": step_id, "title": step_id, "mode": "code", "depends_on": after, **settings})


def plan(*steps: Step, decisions: tuple[Decision, ...] = ()) -> Plan:
    return Plan(version=1, goal="g", steps=list(steps), decisions=list(decisions))


def ran(program: Program, what: Any, **options: Unpack[PlanOptions]) -> Run[PlanResult]:
    return run_plan(what, **{"home": program.home, "workdir": program.folder, **options})


def resumed(program: Program, ended: PlanResult, **options: Unpack[PlanOptions]) -> Run[PlanResult]:
    return resume_plan(ended.plan_id, **{"home": program.home, **options})


def statuses(ended: PlanResult) -> dict[str, str]:
    return {step_id: state.status.value for step_id, state in ended.steps.items()}


def test_a_script_runs_a_plan_of_its_own_functions_without_any_model(program: Program) -> None:
    (program.home.host.home / "config.toml").unlink()  # the remaining model has no key
    seen: list[StepTask] = []

    def count(_task: StepTask) -> Count:
        return Count(count=3)

    async def tell(task: StepTask) -> str:
        seen.append(task)
        return f"{task.inputs[0].output['count']} files"

    made = plan(step("count", output_schema=COUNTED, verify=["test -e a.txt"]), step("tell", "count"))
    ended = ran(program, made, functions={"count": count, "tell": tell}).wait()

    assert (ended.status, ended.outcome, ended.detail) == ("completed", "completed", "")
    assert (ended.steps["count"].output, ended.steps["tell"].summary) == ({"count": 3}, "3 files")
    assert ended.record["steps"][0]["output"] == {"count": 3}
    assert seen[0].workdir == str(program.folder)
    assert program.server.requests == []


async def test_an_agent_is_told_what_a_function_returned(program: Program) -> None:
    program.says("done")

    ended = await ran(program, plan(step("a"), step("b", "a")), functions={"a": lambda _: {"found": "in lib.py"}})

    assert ended.steps["b"].summary.strip() == "done"
    assert "in lib.py" in str(program.messages())


class Wrong:
    """A value that JSON cannot express."""


@pytest.mark.parametrize(("settings", "calls"), [({}, 1), ({"retries": 1}, 2)])
async def test_a_list_of_models_repeats_no_function(program: Program, settings: Mapping[str, Any], calls: int) -> None:
    attempts: list[int] = []

    def break_down(task: StepTask) -> None:
        attempts.append(task.attempt)
        raise ValueError("no such file")

    made = plan(step("a", model=["small", "large"], **settings))
    with pytest.raises(NotCompleted):
        await ran(program, made, functions={"a": break_down})

    assert attempts == list(range(1, calls + 1))


@pytest.mark.parametrize(
    ("said", "settings", "reason", "detail"),
    [
        (ValueError("no such file"), {}, "function", "ValueError: no such file"),
        (SystemExit(3), {}, "function", "SystemExit: 3"),
        (GeneratorExit(), {}, "function", "GeneratorExit"),
        (KeyboardInterrupt(), {}, "function", "KeyboardInterrupt"),
        ({"count": "x"}, {"output_schema": COUNTED}, "output", "value.count: 'x' is not an integer"),
        ("text", {"output_schema": COUNTED}, "output", "value: 'text' is not an object"),
        (Wrong(), {}, "output", "is not JSON"),
        ("x" * 300_000, {}, "output", "262144 at most"),
        (None, {"verify": ["false"]}, "verify", "`false` exited with 1"),
        (StepResult(outcome=Outcome.BLOCKED, reason="blocked", detail="not now"), {}, "blocked", "not now"),
        (StepResult(outcome=cast("Any", "done")), {}, "output", "Invalid enum value 'done'"),
        (StepResult(outcome=Outcome.COMPLETED, summary=cast("Any", 3)), {}, "output", "at `$.summary`"),
        (StepResult(outcome=Outcome.COMPLETED, files_changed=cast("Any", "a.txt")), {}, "output", "`$.files_changed`"),
        (StepResult(outcome=Outcome.COMPLETED, summary="half \ud800"), {}, "output", "surrogates not allowed"),
        (StepResult(outcome=Outcome.INTERRUPTED), {}, "output", "a function that returns was not interrupted"),
    ],
)
async def test_what_a_function_comes_to_is_judged(
    program: Program, said: object, settings: Mapping[str, Any], reason: str, detail: str
) -> None:
    def function(_task: StepTask) -> object:
        if isinstance(said, BaseException):
            raise said
        return said

    with pytest.raises(NotCompleted) as caught:
        await ran(program, plan(step("a", **settings)), functions={"a": function})

    ended = caught.value.result
    assert isinstance(ended, PlanResult)
    assert (statuses(ended)["a"], ended.steps["a"].reason) == ("failed", reason)
    assert detail in ended.steps["a"].detail
    assert detail in str(caught.value)


class Unsayable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("nothing to say")


@pytest.mark.parametrize("by", ["functions", "executor"])
async def test_an_error_whose_text_can_t_be_had_fails_its_step_alone(program: Program, by: str) -> None:
    def fail(*_: object) -> None:
        raise Unsayable

    own: Any = Own("")
    own.run = fail
    options: Any = {"functions": {"a": fail}} if by == "functions" else {"executor": own}
    ended = await ran(program, plan(step("a")), check=False, **options)

    assert ended.steps["a"].detail == "Unsayable: its text can't be had"


async def test_steps_that_were_not_asked_for_are_told_in_no_flags(program: Program) -> None:
    done: dict[str, Callable[[StepTask], object]] = {"a": lambda _: "done"}
    ended = await ran(program, plan(step("a"), step("b")), only=["a"], functions=done)

    assert (ended.steps["b"].reason, ended.steps["b"].detail) == ("only", "not asked for")


async def test_a_plan_goes_on_with_the_models_its_agent_had(program: Program) -> None:
    agent = program.home.host.home / "agents" / "climber.toml"
    agent.parent.mkdir()
    agent.write_text('active_model = ["first", "second"]\n')
    asked: list[str] = []

    def answer(request: Received) -> Reply:
        asked.append(request.body["model"])
        return STOPS_MIDWAY if asked == ["m1", "m2"] else Reply(text="done")

    program.server.responder = answer
    run = ran(program, plan(step("a", agent="climber", verify=["false"], max_repairs=0)), approve=True, check=False)
    async for event in run:
        if isinstance(event, AssistantDeltaEvent) and "m2" in asked:
            run.interrupt()
    agent.write_text('active_model = ["second", "first"]\n')

    ended = await resumed(program, run.result, approve=True, check=False)

    assert (run.result.status, ended.steps["a"].reason) == ("paused", "verify")
    assert asked == ["m1", "m2", "m2"]


class Said(StrEnum):
    WELL = "all is well"


async def test_what_only_looks_like_plain_data_is_kept_as_such(program: Program) -> None:
    functions: dict[str, Callable[[StepTask], object]] = {
        "a": lambda _: Said.WELL,
        "b": lambda _: {"said": Said.WELL, "count": {10**40}},
    }

    ended = await ran(program, plan(step("a"), step("b")), functions=functions)

    assert (ended.steps["a"].summary, ended.steps["b"].output) == (
        "all is well",
        {"said": "all is well", "count": [10**40]},
    )


async def test_what_a_function_raises_is_told_in_characters_that_can_be_written(
    program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_task: StepTask) -> None:
        raise ValueError("half \ud800")

    caplog.set_level(logging.CRITICAL, "vibe.sdk.plan_work")
    ended = await ran(program, plan(step("a")), functions={"a": fail}, check=False)

    assert (ended.steps["a"].reason, ended.steps["a"].detail) == ("function", "ValueError: half ?")


async def cut_off(_task: StepTask) -> None:
    raise asyncio.CancelledError


def left(_task: StepTask) -> None:
    raise SystemExit(3)


@pytest.mark.parametrize(("function", "raised"), [(cut_off, "CancelledError"), (left, "SystemExit: 3")])
async def test_a_function_that_is_cancelled_within_or_leaves_has_failed(
    program: Program, function: Callable[[StepTask], object], raised: str
) -> None:
    ended = await ran(program, plan(step("a")), functions={"a": function}, check=False)

    assert (ended.status, ended.steps["a"].reason) == ("failed", "function")
    assert ended.steps["a"].detail == f"it broke off by itself: {raised}"


async def test_a_list_given_as_an_input_is_done_item_by_item(program: Program) -> None:
    made = {
        "version": 1,
        "goal": "g",
        "inputs": [{"name": "files", "type": "list"}],
        "steps": [{"id": "a", "title": "Look at ${item}", "mode": "research", "for_each": {"input": "files"}}],
    }

    ended = await ran(
        program, made, inputs={"files": ("x.py", "$(touch y)")}, functions={"a": lambda task: task.step.title}
    )

    assert [one["summary"] for one in ended.steps["a"].output] == ["Look at x.py", "Look at $(touch y)"]


async def test_a_function_that_fails_is_tried_again_and_its_failure_may_be_lived_with(program: Program) -> None:
    tries: list[int] = []

    async def often(task: StepTask) -> str:
        tries.append(task.attempt)
        if task.attempt < 2:
            raise OSError("busy")
        return "at last"

    async def never(_task: StepTask) -> None:
        raise KeyError("gone")

    async def last(task: StepTask) -> list[tuple[str, str]]:
        return [(one.status, one.summary) for one in task.inputs]

    made = plan(step("a", retries=1), step("b", on_failure="continue"), step("c", "a", "b"))
    ended = await ran(program, made, functions={"a": often, "b": never, "c": last})

    assert tries == [1, 2]
    assert ended.steps["c"].output == [["completed", "at last"], ["failed", "KeyError: 'gone'"]]


async def test_a_step_has_so_much_time_and_no_more_whoever_does_it(program: Program) -> None:
    ended = await ran(
        program, plan(step("a", timeout_seconds=0.1)), functions={"a": lambda _: anyio.sleep(60)}, check=False
    )

    assert (ended.outcome, ended.steps["a"].reason) == ("limit", "timeout")


async def test_a_function_works_in_its_step_s_worktree_and_its_work_is_merged(program: Program) -> None:
    async def write(task: StepTask) -> str:
        assert task.workdir is not None
        assert Path(task.workdir) != program.folder
        await (anyio.Path(task.workdir) / "new.txt").write_text("from afar")
        return "written"

    made = plan(step("a", workspace="worktree", verify=["test -e new.txt"]))
    ended = await ran(program, made, functions={"a": write})

    assert ended.steps["a"].last_result.files_changed == ("new.txt",)
    assert await anyio.Path(program.folder / "new.txt").read_text() == "from afar"


def _yes(_event: PlanDecisionEvent) -> str:
    return "yes"


async def _only_yes(_event: PlanDecisionEvent) -> list[str]:
    return ["yes"]


async def test_a_missing_input_of_a_plan_in_python_is_named_once(program: Program) -> None:
    asked = {**GREETING, "inputs": [{"name": "who"}]}

    with pytest.raises(UsageError, match=r"^plan: input 'who' \(string\) is missing: give inputs=\{'who': VALUE\}$"):
        await ran(program, asked)


async def test_inputs_are_given_to_the_plan(program: Program) -> None:
    asked = {"version": 1, "goal": "g", "inputs": [{"name": "who"}]}
    made = {**asked, "steps": [{"id": "a", "title": "A", "mode": "code", "prompt": "Greet ${inputs.who}"}]}

    ended = await ran(program, made, inputs={"who": "Ada"}, functions={"a": lambda task: task.step.prompt})

    assert ended.steps["a"].summary == "Greet Ada"


async def test_a_function_does_each_item_of_a_list(program: Program) -> None:
    async def names(_task: StepTask) -> list[str]:
        return ["a", "bb", "ccc"]

    async def size(task: StepTask) -> int:
        return len(task.variables["VIBE_ITEM"])

    async def both(task: StepTask) -> list[tuple[str, int]]:
        return [(each["item"], each["output"]) for each in task.inputs[0].output]

    listed = step("names", output_schema={"type": "array"})
    made = plan(listed, step("size", "names", for_each={"in": "names"}), step("both", "size"))
    ended = await ran(program, made, functions={"names": names, "size": size, "both": both})

    assert ended.steps["both"].output == [["a", 1], ["bb", 2], ["ccc", 3]]
    assert [(each["item"], each["output"]) for each in ended.steps["size"].output] == [("a", 1), ("bb", 2), ("ccc", 3)]
    assert program.server.requests == []


@pytest.mark.parametrize("decide", [_yes, _only_yes, {"ship": "yes"}, {"ship": ["yes"]}])
async def test_a_program_takes_the_decisions(program: Program, decide: Any) -> None:
    made = plan(step("a", decision="ship"), decisions=(SHIP,))

    ended = await ran(program, made, functions={"a": lambda _: "shipped"}, decide=decide)

    assert ended.steps["a"].summary == "shipped"


async def test_a_decision_that_is_left_open_pauses_the_plan_and_is_taken_later(program: Program) -> None:
    asked: list[str] = []

    async def later(event: PlanDecisionEvent) -> None:
        asked.append(event.question)

    made = plan(step("a", decision="ship"), decisions=(SHIP,))
    for decide in (later, None):
        paused = await ran(program, made, functions={"a": lambda _: "shipped"}, decide=decide, check=False)
        assert (paused.status, paused.reason, paused.open_decisions) == ("paused", "decision", (SHIP,))

    ended = await resumed(program, paused, functions={"a": lambda _: "shipped"}, decide={"ship": "yes"})

    assert (asked, ended.status) == (["Ship it?"], "completed")


async def test_a_failed_step_may_be_the_program_s_to_decide(program: Program) -> None:
    asked: list[tuple[str, ...]] = []

    async def decide(event: PlanDecisionEvent) -> str:
        asked.append(event.options)
        return "retry"

    async def second(task: StepTask) -> str:
        if task.attempt == 1:
            raise ValueError("once")
        return "well"

    ended = await ran(program, plan(step("a", on_failure="ask")), functions={"a": second}, decide=decide)

    assert asked == [("retry", "skip", "stop")]
    assert ended.steps["a"].summary == "well"


def _lookup(word: str) -> str:
    return word


def _raise(_event: object) -> str:
    raise LookupError("nobody home")


def _maybe(_event: PlanDecisionEvent) -> str:
    return "maybe"


async def _both(_event: PlanDecisionEvent) -> tuple[str, ...]:
    return ("yes", "no")


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"decide": _maybe}, UsageError, "decision 'ship': choose one of yes, no, or None"),
        ({"decide": _both}, UsageError, "choose one of yes, no, or None"),
        ({"decide": _raise}, LookupError, "nobody home"),
        ({"on_event": _raise}, LookupError, "nobody home"),
    ],
)
async def test_what_a_callback_raises_pauses_the_plan_and_is_raised(
    program: Program, options: Any, error: type[Exception], said: str
) -> None:
    made = plan(step("a"), step("b", "a", decision="ship"), decisions=(SHIP,))
    functions: dict[str, Callable[[StepTask], object]] = {"a": lambda _: "a", "b": lambda _: "b"}

    with pytest.raises(error, match=said) as caught:
        await ran(program, made, functions=functions, **options)

    [note] = caught.value.__notes__
    plan_id = note.split()[1]
    assert note == f"plan {plan_id} is paused: resume_plan goes on with it"
    ended = await resume_plan(plan_id, home=program.home, functions=functions, decide={"ship": "yes"})
    assert ended.status == "completed"


async def test_an_interrupted_plan_pauses_and_goes_on(program: Program) -> None:
    done: list[str] = []
    at_work = anyio.Event()

    async def hang(_task: StepTask) -> None:
        at_work.set()
        await anyio.sleep_forever()

    async def note(task: StepTask) -> None:
        done.append(task.step_id)

    made = plan(step("a"), step("b", "a"), step("c", "b"))
    run = ran(program, made, functions={"a": note, "b": hang, "c": note})

    async def interrupt() -> None:
        await at_work.wait()
        run.interrupt()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(interrupt)
        with pytest.raises(NotCompleted, match=r"^interrupted"):
            await run

    with pytest.raises(NotCompleted) as caught:
        _ = run.result
    paused = caught.value.result
    assert (paused.status, paused.reason, statuses(paused)["b"]) == ("paused", "program", "pending")
    ended = await resumed(program, paused, functions={"b": note, "c": note})
    assert (ended.status, done) == ("completed", ["a", "b", "c"])


async def test_who_is_cancelled_while_waiting_has_the_plan_paused_first(program: Program) -> None:
    begun = anyio.Event()
    run: Run[PlanResult] | None = None

    async def hang(_task: StepTask) -> None:
        begun.set()
        await anyio.sleep_forever()

    async def waits() -> None:
        nonlocal run
        run = ran(program, plan(step("a")), functions={"a": hang}, check=False)
        await run

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(waits)
        await begun.wait()
        tasks.cancel_scope.cancel()

    assert run is not None
    assert run.result.status == "paused"


async def test_events_are_iterated_and_leaving_pauses(program: Program) -> None:
    made = plan(step("a"), step("b", "a"))
    run = ran(program, made, functions={"a": lambda _: "a", "b": lambda _: anyio.sleep(60)}, check=False)

    async for event in run:
        if isinstance(event, PlanStepUpdateEvent) and (event.step_id, event.status) == ("b", "in_progress"):
            break
    run.interrupt()

    assert (await run).status == "paused"


async def test_callbacks_reach_the_agents_of_steps(program: Program) -> None:
    asked: list[tuple[str, str | None]] = []

    async def approve(request: ApprovalRequest) -> bool:
        asked.append((request.tool, request.subagent_step_id))
        return True

    write = calls("write_file", '{"path": "b.txt", "content": "b"}')
    program.says(write, "done")

    ended = await ran(program, plan(step("b")), approve=approve)

    assert asked == [("write_file", "b")]
    assert ended.steps["b"].last_result.files_changed == ("b.txt",)


async def test_the_agents_of_steps_have_the_tools_and_the_hooks_of_the_program(program: Program) -> None:
    called: list[str] = []
    seen: list[tuple[str, str]] = []

    def lookup(word: str) -> str:
        called.append(word)
        return f"{word} is a word"

    async def before(payload: dict[str, Any]) -> str | None:
        seen.append((payload["tool_name"], payload["tool_input"]["word"]))
        return "not that one" if payload["tool_input"]["word"] == "no" else None

    program.says(calls("lookup", '{"word": "no"}'), calls("lookup", '{"word": "vibe"}'), "done")

    await ran(program, plan(step("a")), tools=[lookup], hooks={"before_tool": before})

    assert (called, seen) == (["vibe"], [("lookup", "no"), ("lookup", "vibe")])
    assert "not that one" in str(program.messages())
    assert "vibe is a word" in str(program.messages())


async def test_settings_of_the_program_hold_for_its_plans(program: Program) -> None:
    told = {"planner.enabled": False}

    with pytest.raises(UsageError, match=r"step 'a' has on_failure: replan: planner.enabled is false \(config"):
        await ran(program, plan(step("a", on_failure="replan")), config=told)
    with pytest.raises(UsageError, match=r"make_plan: planner.enabled is false"):
        await make_plan("Tidy", home=program.home, workdir=program.folder, config=told)


async def test_a_program_that_answers_is_asked_whatever_the_settings_say(program: Program) -> None:
    config = program.home.host.home / "config.toml"
    config.write_text(f"auto_approve = true\n{config.read_text()}")
    program.says(calls("write_file", '{"path": "b.txt", "content": "b"}'), "done")

    await ran(program, plan(step("a")), approve=lambda _request: False, check=False)

    assert not (program.folder / "b.txt").exists()


async def test_an_agent_of_a_step_is_steered(program: Program) -> None:
    run = ran(program, plan(step("a"), step("b", "a")), functions={"b": lambda _: "b"})
    heard: list[bool] = [run.steer("too early")]

    def respond(request: Received) -> Reply:
        told = str(request.body["messages"])
        return Reply(text="heard" if "Use tabs" in told else "nothing") if first else first_reply()

    first: list[bool] = []

    def first_reply() -> Reply:
        first.append(True)
        heard.append(run.steer("Use tabs"))
        heard.append(run.steer("Use tabs", step="b"))
        return Reply(tool_calls=(ServedCall(name="read_file", arguments='{"path": "a.txt"}'),))

    program.server.responder = respond

    ended = await run

    assert ended.steps["a"].summary.strip() == "heard"
    assert heard == [False, True, False]


class Own:
    """An executor of the program's own."""

    def __init__(self, result: object = None) -> None:
        self.result = result or StepResult(outcome=Outcome.COMPLETED, summary="done elsewhere")
        self.tasks: list[StepTask] = []

    async def run(self, task: StepTask, stop: object) -> Any:
        assert stop is not None
        self.tasks.append(task)
        return self.result


async def test_an_executor_of_the_program_does_the_steps_and_the_checks_of_functions(program: Program) -> None:
    own = Own()

    made = plan(step("a", verify=["make"]), step("b", "a"))
    ended = await ran(program, made, executor=own, functions={"a": lambda _: "a"})

    assert [(task.step_id, task.only_checks) for task in own.tasks] == [("a", True), ("b", False)]
    assert (ended.steps["a"].summary, ended.steps["b"].summary) == ("a", "done elsewhere")


async def test_an_executor_whose_run_is_no_coroutine_does_its_step_too(program: Program) -> None:
    class Plain:
        def run(self, task: StepTask, stop: object) -> StepResult:  # noqa: ARG002  the port's signature
            return StepResult(outcome=Outcome.COMPLETED, summary=f"{task.step_id}, at once")

    own: Any = Plain()

    assert (await ran(program, plan(step("a")), executor=own)).steps["a"].summary == "a, at once"


async def test_an_executor_that_returns_no_result_fails_its_step_alone(program: Program) -> None:
    ended = await ran(program, plan(step("a")), executor=Own("done"), check=False)

    assert ended.steps["a"].detail == "TypeError: executor= returned str, not a StepResult"


@pytest.mark.parametrize(
    ("what", "options", "said"),
    [
        ({"version": 1}, {}, "plan: 2 problems:\n  goal: is required"),
        ({"version": 1, "goal": {1, 2}}, {}, "plan: is not JSON"),
        ("missing.json", {}, "missing.json: no such file"),
        (plan(step("a")), {"functions": {"b": print}}, "functions: the plan has no step 'b'"),
        (plan(step("a")), {"executor": "process", "functions": {"a": print}}, "can't call functions of this program"),
        (plan(step("a")), {"executor": "process", "tools": [_lookup]}, "can't call tools of this program"),
        (plan(step("a")), {"executor": "process", "hooks": {"before_tool": print}}, "can't call hooks of this program"),
        (plan(step("a")), {"hooks": {"before": print}}, "hooks='before'"),
        (plan(step("a")), {"config": {"activ_model": "m"}}, "did you mean 'active_model'?"),
        (plan(step("a")), {"executor": "abacus"}, "executor='abacus': no such executor"),
        (plan(step("a")), {"executor": "program"}, "no such executor"),
        (plan(step("a")), {"approve": "sure"}, "approve='sure'"),
        (plan(step("a")), {"only": "a"}, "only='a': give a list of steps"),
        (plan(step("a")), {"decide": "yes"}, "decide='yes': give a mapping, or a function"),
        (plan(step("a")), {"functions": {"a": "a"}}, "functions={'a': 'a'}: give a mapping from steps to functions"),
        (plan(step("a")), {"functions": ["a"]}, "functions=['a']: give a mapping"),
        (plan(step("a")), {"executor": print}, "give a name, or an object with `async run(task, stop)`"),
        (plan(step("a")), {"max_parallel": 0}, "max_parallel=0: give a whole number above 0"),
        (plan(step("a")), {"workdir": "nowhere"}, "nowhere: no such folder"),
        (plan(step("a")), {"decide": {"ship": "yes"}}, "decide['ship']: the plan has no such decision"),
        (plan(step("a"), decisions=(SHIP,)), {"decide": {"ship": "so"}}, "decide['ship']=so: no such option"),
        (plan(step("a"), decisions=(SHIP,)), {"decide": {"ship": ["no", "yes"]}}, "decide['ship']: takes one option"),
        ({**GREETING, "inputs": [{"name": "who", "type": "string"}]}, {}, "give inputs={'who': VALUE}"),
        (plan(step("a")), {"inputs": {"name": "x"}}, "'name'"),
    ],
)
async def test_wrong_words_are_one_sentence_and_nothing_is_written(
    program: Program, what: Any, options: Any, said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        await ran(program, what, **options)

    assert said in str(caught.value)
    assert "--" not in str(caught.value), "a flag of the command line"
    assert not await anyio.Path(program.home.host.home / "plans").exists()


def test_an_argument_that_there_is_not_is_refused_as_by_python(program: Program) -> None:
    with pytest.raises(TypeError, match=r"run_plan.* 'decides'"):
        ran(program, plan(step("a")), decides={})  # pyright: ignore[reportCallIssue]


PLANNED = '{"value": {"steps": [{"id": "a", "title": "A", "mode": "run", "command": "true"}]}}'


async def test_a_model_writes_a_plan_whose_commands_wait_for_a_yes(program: Program) -> None:
    program.says(calls("hand_in_plan", PLANNED))

    made = await make_plan("Count the files", home=program.home, workdir=program.folder)

    assert [one.command for one in made.steps] == ["true"]
    with pytest.raises(UsageError, match=r"\(a: true\).* give accept_commands=True"):
        await ran(program, made)
    assert (await ran(program, made, accept_commands=True)).status == "completed"


async def test_the_edits_of_a_model_s_plan_may_be_accepted_when_it_goes_on(program: Program) -> None:
    written = calls("write_file", '{"path": "b.txt", "content": "two"}')
    made = plan(step("edit", decision="ship", writes=["b.txt"]), decisions=(SHIP,))
    made = made.model_copy(update={"metadata": {"origin": "model"}})
    opened = await ran(program, made, check=False)
    program.says(written, "done")

    ended = await resumed(program, opened, decide={"ship": "yes"}, accept_commands=True, check=False)

    assert (opened.status, ended.status) == ("paused", "completed")
    assert await anyio.Path(program.folder / "b.txt").read_text() == "two"


async def test_a_plan_that_no_model_wrote_is_told_with_the_reason(program: Program) -> None:
    program.says(*["I would rather not"] * 9)

    with pytest.raises(NotCompleted) as caught:
        await make_plan("Count the files", home=program.home, workdir=program.folder)

    assert caught.value.result.outcome == "failed"


async def test_what_planning_took_is_kept_from_call_to_call(program: Program) -> None:
    program.says("I would rather not", STOPS_MIDWAY)
    run = make_plan("Count the files", home=program.home, workdir=program.folder)
    calls: list[int] = []

    async def count() -> None:
        kept = await anyio.to_thread.run_sync(usage_summary, program.home.host.home, "model", 0.0)
        calls.append(kept.total.usage.calls)

    async for _ in run.text():
        if len(program.server.requests) == 2:
            await count()
            break
    run.interrupt()
    with pytest.raises(NotCompleted):
        await run
    await count()

    assert calls == [1, 2], "the second call broke off"


async def test_planning_is_interrupted(program: Program) -> None:
    program.says(STOPS_MIDWAY)
    run = make_plan("Count the files", home=program.home, workdir=program.folder)

    async for _ in run.text():
        run.interrupt()
        break

    with pytest.raises(NotCompleted, match=r"^interrupted"):
        await run
