"""``--output-schema`` and ``output_schema`` of ``call_vibe``: the answer is a value, or a message says that there is
none.

Covers ``vibe.app.conversation``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import VibeCommand
from tests.e2e.mcp_scene import Scene, scene, text, tool

COUNT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
WRONG, RIGHT = tool("hand_in", value={"n": "x"}), tool("hand_in", value={"n": 3}, summary="three")
DONE = {"text": "done"}


def asked(vibe: VibeCommand, *turns: dict[str, Any], schema: object = COUNT) -> None:
    vibe.replay({"agents": {"main": {"turns": list(turns)}}})
    (vibe.workdir / "s.json").write_text(json.dumps(schema))


def test_text_is_the_value_alone(vibe: VibeCommand) -> None:
    asked(vibe, WRONG, RIGHT)
    ended = vibe("-p", "count", "--output-schema", "s.json")
    assert (ended.code, ended.out, ended.err) == (0, '{"n": 3}\n', "")


@pytest.mark.parametrize("output", ["json", "streaming"])
def test_the_record_has_the_value(vibe: VibeCommand, output: str) -> None:
    asked(vibe, RIGHT)
    ended = vibe("-p", "count", "--output-schema", "s.json", "--output", output, stdin="some\nlines")
    record = ended.document if output == "json" else ended.lines[-1]
    assert (record["outcome"], record["value"], record["result"]) == ("completed", {"n": 3}, "three")


def test_null_is_a_value_too_and_a_prompt_without_a_schema_has_none(vibe: VibeCommand) -> None:
    asked(vibe, tool("hand_in", value=None), {"text": "words"}, schema={"type": ["null", "integer"]})
    first = vibe("-p", "count", "--output-schema", "s.json")
    assert (first.code, first.out) == (0, "null\n")
    plain = vibe("-c", "-p", "and now", "--output", "json")
    assert (plain.document["result"], "value" in plain.document) == ("words", False)


def test_it_goes_with_a_resumed_session_and_with_tools(vibe: VibeCommand) -> None:
    asked(vibe, {"text": "hello"}, tool("list_dir", path="."), RIGHT)
    session = vibe("-p", "hi", "--output", "json").document["session_id"]
    ended = vibe("--resume", session, "-p", "count", "--output-schema", "s.json", "--auto-approve", "--max-turns", "9")
    assert (ended.code, ended.out) == (0, '{"n": 3}\n')


def test_a_value_that_was_handed_in_is_not_asked_for_again(vibe: VibeCommand) -> None:
    asked(vibe, RIGHT)
    vibe("-p", "count", "--output-schema", "s.json")

    with_schema, without = vibe("-c", "-p", "--output-schema", "s.json"), vibe("-c", "-p")

    assert [(ended.code, ended.out) for ended in (with_schema, without)] == [(0, '{"n": 3}\n')] * 2


def test_where_none_fits_nothing_is_on_stdout(vibe: VibeCommand) -> None:
    said = (
        "the agent ended without handing in its result with hand_in; the last value was refused: "
        "value.n: 'x' is not an integer"
    )
    asked(vibe, WRONG, DONE, DONE, WRONG, DONE, DONE)
    ended = vibe("-p", "count", "--output-schema", "s.json")
    assert (ended.code, ended.out, ended.err) == (1, "", f"vibe: failed: {said}\n")
    record = vibe("-p", "count", "--output-schema", "s.json", "--output", "json").document
    assert (record["exit_code"], record["reason"], record["detail"], record["value"]) == (1, "output", said, None)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    yield from scene(tmp_path_factory.mktemp("served"), "--auto-approve")


def test_a_client_gets_the_value_too(served: Scene, workdir: Path) -> None:
    served.script(WRONG, RIGHT)
    result = served.served.call("call_vibe", prompt="go", cwd=str(workdir), output_schema=COUNT)
    assert (text(result), result.structured_content["value"]) == ('{"n": 3}', {"n": 3})

    served.script(WRONG, DONE, DONE)
    result = served.served.call("call_vibe", prompt="go", cwd=str(workdir), output_schema=COUNT)
    assert result.is_error
    assert "the last value was refused: value.n: 'x' is not an integer" in text(result)
    result = served.served.call("call_vibe", prompt="go", cwd=str(workdir), output_schema={"type": "nope"})
    assert "output_schema: type: 'nope' is not a JSON Schema type" in text(result)
