"""A program's functions as tools of its agents."""

from __future__ import annotations

import asyncio  # noqa: TID251  programs use it
import json
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any, NotRequired, TypedDict

import pytest
from anyio import create_task_group, fail_after, to_thread
from pydantic import BaseModel, Field

from tests.fakes.model_server import Reply, ServedCall
from tests.integration.sdk.conftest import Program, calls
from vibe.core.tools.base import BaseTool, BaseToolConfig, BaseToolState, InvokeContext, TextResult
from vibe.core.tools.permissions import ToolPermission
from vibe.core.tools.schema import KeywordArguments
from vibe.sdk import Run, ToolError, UsageError, query, tool

WEATHER: dict[str, int] = {"Paris": 21}


class Weather(BaseModel):
    degrees: int


def weather(city: str, unit: Annotated[str, Field(description="C or F.")] = "C") -> str:
    """Look up the weather.

    Args:
        city: Its name, in
            English.
        unit: passed over

    Returns:
        What it is.
    """
    return f"{WEATHER[city]} {unit}"


@tool(name="forecast", read_only=True)
async def later(city: str, days: int = 1) -> Weather:
    """Look ahead.

    :param city: The town.
    :param int days: How far.
    """
    return Weather(degrees=WEATHER[city] + days)


def told_of(program: Program, name: str, request: int = -1) -> dict[str, Any] | None:
    """Return the schema of a tool as the model received it, or None if it did not."""
    tools = program.server.requests[request].body["tools"]
    return next((one["function"] for one in tools if one["function"]["name"] == name), None)


def result(program: Program) -> str:
    return program.messages()[-1]["content"]


async def test_a_function_is_a_tool_by_its_signature_and_docstring(program: Program) -> None:
    program.says(calls("weather", '{"city": "Paris"}'), "warm")

    answer = await program.query("Is it warm?", tools=[weather, later])

    assert (answer.text, answer.denied, result(program)) == ("warm ", (), "21 C")
    told = told_of(program, "weather")
    assert told is not None
    assert told["description"] == "Look up the weather."
    city, unit = told["parameters"]["properties"].values()
    assert (city["description"], unit["description"]) == ("Its name, in English.", "C or F.")
    assert told["parameters"]["required"] == ["city"]
    other = told_of(program, "forecast")
    assert other is not None
    assert [one["description"] for one in other["parameters"]["properties"].values()] == ["The town.", "How far."]


async def test_a_decorated_function_is_still_that_function(program: Program) -> None:
    program.says(calls("forecast", '{"city": "Paris", "days": 2}'), "warmer")

    await program.query("And then?", tools=[later])

    assert "degrees: 23" in result(program)
    assert (await later("Paris")).degrees == 22


async def test_what_json_has_is_returned_as_that(program: Program) -> None:
    def towns() -> list[Weather]:
        return [Weather(degrees=1)]

    program.says(calls("towns"), "one")
    await program.query("Which?", tools=[towns])

    assert json.loads(result(program)) == [{"degrees": 1}]


async def test_arguments_are_checked_and_errors_go_to_the_model(program: Program) -> None:
    def fails(how: str) -> str:
        if how == "said":
            raise ToolError("ask for another town")
        return str(WEATHER[how])

    wrong = calls("fails", '{"who": 1}')
    program.says(wrong, calls("fails", '{"how": "said"}'), calls("fails", '{"how": "Rome"}'), "done")

    answer = await program.query("Try", tools=[fails])

    told = [one["content"] for one in program.messages() if one["role"] == "tool"]
    assert "arguments.how: field required" in told[0]
    assert told[1] == "ask for another town"
    assert told[2] == "fails failed: KeyError: 'Rome'"
    assert answer.outcome == "completed"


class Unsayable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("nothing to say")


async def test_an_error_whose_text_can_t_be_had_goes_to_the_model(program: Program) -> None:
    def fails() -> None:
        raise Unsayable

    program.says(calls("fails"), "done")

    assert (await program.query("Try", tools=[fails])).outcome == "completed"
    assert result(program) == "fails failed: Unsayable: its text can't be had"


async def test_a_plain_function_has_a_thread_and_an_async_one_the_loop(program: Program) -> None:
    places: list[str] = []

    def plain(ctx: InvokeContext) -> str:
        places.append(threading.current_thread().name)
        return str(ctx.workspace.root)

    async def on_loop() -> None:
        places.append(threading.current_thread().name)
        await to_thread.run_sync(str)

    program.says(calls("plain"), calls("on_loop"), "done")
    await program.query("Try", tools=[plain, on_loop])

    assert told_of(program, "plain", 0) == {
        "name": "plain",
        "description": "plain",
        "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
    }
    assert places[0] != "MainThread" == places[1]
    assert next(one["content"] for one in program.messages() if one["role"] == "tool") == str(program.folder)


async def _awaited(run: Run[Any]) -> None:
    await run


async def test_a_plain_function_is_left_behind_when_it_is_cancelled(program: Program) -> None:
    begun, free = threading.Event(), threading.Event()

    def waits() -> str:
        begun.set()
        assert free.wait(60)
        return ""

    program.says(calls("waits"), "again")
    async with program.session(tools=[waits]) as session:
        async with create_task_group() as group:
            group.start_soon(_awaited, session.send("Wait"))
            await to_thread.run_sync(begun.wait, 60)
            group.cancel_scope.cancel()
        with fail_after(30):
            assert (await session.send("Go on")).text == "again "
        free.set()


class Shout(BaseTool[KeywordArguments, TextResult, BaseToolConfig, BaseToolState]):
    """Say it loudly."""

    async def run(self, text: str) -> str:
        return text.upper()


async def test_a_tool_class_and_settings_of_tools_count(program: Program) -> None:
    home = program.home.host.home / "config.toml"
    home.write_text(home.read_text() + '[tools.weather]\npermission = "never"\n[tools.shout]\npermission = "always"\n')
    program.says(calls("shout", '{"text": "hey"}'), calls("weather", '{"city": "Paris"}'), "done")

    await program.query("Shout", tools=[Shout, weather])

    assert told_of(program, "weather") is None
    shouted, refused = [one["content"] for one in program.messages() if one["role"] == "tool"]
    assert shouted == "HEY"
    assert "21" not in refused


async def test_one_that_asks_is_asked_about(program: Program) -> None:
    asking = tool(permission="ask")(weather)
    program.says(calls("weather", '{"city": "Paris"}'), "done")

    answer = await program.query("Try", tools=[asking], check=False)

    assert answer.outcome == "blocked"
    assert answer.denied[0].tool == "weather"


async def test_who_only_reads_has_only_what_says_so(program: Program) -> None:
    program.says(calls("forecast", '{"city": "Paris"}'), "done")

    await program.query("Try", tools=[weather, later], read_only=True)

    assert told_of(program, "weather") is None
    assert "degrees: 22" in result(program)


async def test_those_that_only_read_run_side_by_side(program: Program) -> None:
    both = threading.Barrier(2)

    @tool(read_only=True)
    def meets(name: str) -> str:
        both.wait(60)
        return name

    two = tuple(ServedCall(name="meets", arguments=json.dumps({"name": name}), id=name) for name in ("a", "b"))
    program.says(Reply(tool_calls=two), "done")

    answer = await program.query("Meet", tools=[meets])

    assert answer.outcome == "completed"


async def test_subagents_have_them_too(program: Program) -> None:
    order = json.dumps({"task": "look", "agent": "worker"})
    program.says(calls("task", order), calls("forecast", '{"city": "Paris"}'), "it is warm", "done")

    await program.query("Have it looked up", tools=[later], approve=True)

    told = [str(request.body["messages"]) for request in program.server.requests]
    assert any("degrees: 22" in one for one in told), told


def star(*cities: str) -> str:
    return str(cities)


def generates() -> Iterator[str]:
    yield ""


def unresolved(city: str) -> str:
    return city


unresolved.__annotations__["city"] = "Nowhere"
UNFIT: list[tuple[Callable[..., Any], str]] = [
    (star, "tool 'star' can't be used: star takes \\*cities"),
    (generates, "tool 'generates' can't be used: it is a generator"),
    (unresolved, "tool 'unresolved' can't be used: an annotation of unresolved can't be resolved"),
    (lambda: "", "tool '<lambda>' can't be used: its name '<lambda>'"),
    (tool(name="bash")(weather), "tool 'bash': vibe itself has one of that name"),
    (tool(name="hand_in")(weather), "tool 'hand_in': vibe itself has one of that name"),
]


@pytest.mark.parametrize(("made", "words"), UNFIT)
async def test_what_can_t_be_a_tool_is_named(program: Program, made: Callable[..., Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        await program.query("Try", tools=[made])

    assert not (program.home.host.home / "logs").exists()


class Scale:
    """Multiplies."""

    def __call__(self, number: int) -> int:
        """Multiply by three.

        Args:
            number: What is multiplied.
        """
        return number * 3


def power(base: int, exponent: int) -> int:
    """Raise a number.

    Args:
        base: What is raised.
    """
    return base**exponent


def odd(self: int, step: int = Field(2, description="How far."), add: Any = int.__add__) -> int:
    return add(self, step)


@pytest.mark.parametrize(
    ("made", "arguments", "said", "about"),
    [
        (tool(name="scale")(Scale()), '{"number": 2}', "6", "Multiply by three."),
        (partial(power, exponent=2), '{"base": 3}', "9", "Raise a number."),
        (tool(name="power")(tool(name="other")(partial(power, 2))), '{"exponent": 3}', "8", "Raise a number."),
        (odd, '{"self": 1}', "3", "odd"),
    ],
)
async def test_whatever_can_be_called_by_names_is_a_tool(
    program: Program, made: Any, arguments: str, said: str, about: str, recwarn: pytest.WarningsRecorder
) -> None:
    name = getattr(made, "name", getattr(made, "__name__", "power"))
    program.says(calls(name, arguments), "done")

    await program.query("Try", tools=[made])

    told = told_of(program, name)
    assert told is not None
    assert (result(program), told["description"]) == (said, about)
    assert not recwarn.list


class Part(TypedDict):
    name: str
    count: NotRequired[Annotated[int, Field(gt=0)]]


def ordered(parts: list[Part]) -> str:
    return str(parts)


async def test_a_typed_dict_of_the_standard_library_is_a_type_of_parameters_and_of_answers(program: Program) -> None:
    program.says(calls("ordered", '{"parts": [{"name": "a", "count": 1}]}'), "done")
    program.says(calls("hand_in", '{"value": {"name": "b", "count": 0}}'), calls("hand_in", '{"value": {"name": "b"}}'))

    await program.query("Try", tools=[ordered])
    ordered_parts = result(program)
    answer = await query("Which?", output=Part, home=program.home, workdir=program.folder)

    assert ordered_parts == "[{'name': 'a', 'count': 1}]"
    assert answer.output == {"name": "b"}


async def test_two_of_one_name_are_refused(program: Program) -> None:
    with pytest.raises(UsageError, match="the program has one of that name"):
        await program.query("Try", tools=[weather, weather])


def test_the_default_permission_is_that_of_who_hands_it_over() -> None:
    assert later.permission == "always" == ToolPermission.ALWAYS.value


class Empty(BaseModel):
    """No arguments, and no result."""


BREAKS_OFF = [
    SystemExit(3),
    KeyboardInterrupt(),
    GeneratorExit(),
    asyncio.CancelledError(),
    BaseExceptionGroup("two", [KeyboardInterrupt(), ValueError()]),
]


@pytest.mark.parametrize("error", BREAKS_OFF, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("shape", ["thread", "loop", "class"])
async def test_a_tool_that_breaks_off_has_failed_and_the_work_goes_on(
    program: Program, error: BaseException, shape: str
) -> None:
    def leave() -> str:
        raise error

    async def leave_loop() -> str:
        raise error

    class Leave(BaseTool[Empty, Empty, BaseToolConfig, BaseToolState]):
        """Leave, as a class."""

        async def run(self, args: Empty) -> Empty:  # noqa: ARG002  the shape of a tool
            raise error

    shapes: dict[str, Callable[..., Any]] = {"thread": leave, "loop": tool(name="leave")(leave_loop), "class": Leave}
    program.says(calls("leave"), "done")

    answer = await program.query("Hi", tools=[shapes[shape]], approve=True)

    assert answer.text == "done "
    assert program.messages()[-1]["content"].startswith("leave failed: ")


def test_a_permission_that_is_none_is_told() -> None:
    with pytest.raises(UsageError, match="permission='alway': give 'always', 'ask' or 'never'"):

        @tool(permission="alway")  # pyright: ignore[reportArgumentType]  as a program may write it
        def lookup() -> str:
            return ""
