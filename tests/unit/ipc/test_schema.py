"""The schema of events accepts every event, and nothing else."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from jsonschema import Draft202012Validator

from ipc.events import Event
from tests.architecture.project import ROOT
from tests.fakes.events import GOLDEN

SCHEMA: dict[str, Any] = json.loads((ROOT / "ipc" / "events.schema.json").read_text(encoding="utf-8"))
VALIDATOR: Any = Draft202012Validator(SCHEMA)
LINES = [*GOLDEN.read_bytes().splitlines(), *GOLDEN.with_name("earlier.jsonl").read_bytes().splitlines()]


def kind(tag: str) -> str:
    """Return the name under which the schema defines the event with a tag."""
    names = (name for name, part in SCHEMA["$defs"].items() if part["properties"].get("type") == {"enum": [tag]})
    return next(names)


def problems(line: bytes) -> list[str]:
    document = json.loads(line)
    definition = {"$ref": f"#/$defs/{kind(document['type'])}", "$defs": SCHEMA["$defs"]}
    validator: Any = Draft202012Validator(definition)
    return [error.message for error in validator.iter_errors(document)]


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_it_knows_every_event() -> None:
    tags = {str(event.__struct_config__.tag) for event in get_args(Event)}
    listed = {part["$ref"].rpartition("/")[2] for part in SCHEMA["anyOf"]}

    assert listed == {kind(tag) for tag in tags}


@pytest.mark.parametrize("line", LINES, ids=lambda line: json.loads(line)["type"])
def test_it_takes_every_event_and_those_of_earlier_versions(line: bytes) -> None:
    assert problems(line) == []
    assert VALIDATOR.is_valid(json.loads(line))


@pytest.mark.parametrize(
    "document",
    [
        {"type": "user.message"},
        {"type": "user.message", "text": 7},
        {"type": "no.such.event", "text": "hi"},
        {
            "type": "tool.result",
            "tool_call_id": "c",
            "tool": "t",
            "status": "ok",
            "content": "",
            "display": {"kind": "?"},
        },
        {"text": "hi"},
        [],
    ],
    ids=["field missing", "field of another type", "no such event", "no such display", "no type", "no object"],
)
def test_it_takes_nothing_else(document: object) -> None:
    assert not VALIDATOR.is_valid(document)


def test_it_takes_fields_of_later_versions() -> None:
    assert VALIDATOR.is_valid({"type": "user.message", "text": "hi", "mood": "good"})
