"""Messages to programs about their errors: one sentence, nothing on stdout, and nothing done if the words were wrong.

Covers ``vibe.cli``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from tests.e2e.conftest import VibeCommand, snapshot
from tests.e2e.mcp_scene import tool

COUNT = '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}'
EXAMPLE = '{"type": "object", "properties": {...}}'
STEP = {"id": "a", "title": "A", "mode": "run", "command": "true"}
PLAN = json.dumps({"version": 1, "goal": "g", "steps": [STEP]})
TIDY = json.dumps({"version": 1, "goal": "g", "inputs": [{"name": "n", "type": "integer"}], "steps": [STEP]})


@dataclass(frozen=True)
class Case:
    """Words on the command line, the answer to them, and the content of a file that they name."""

    words: str
    said: str
    file: str = ""
    content: str | None = None
    code: int = 2
    stdin: str = ""


CASES = [
    Case(
        "-p count --output-schema s.json",
        "--output-schema s.json: type: 'nope' is not a JSON Schema type",
        "s.json",
        '{"type": "nope"}',
        stdin="never read",
    ),
    Case(
        "-p count --output-schema s.json",
        "--output-schema s.json: properties.n.type: 3 is not valid under any of the given schemas",
        "s.json",
        '{"properties": {"n": {"type": 3}}}',
    ),
    Case(
        "-p count --output-schema s.json",
        "--output-schema s.json: can't be read (No such file or directory): name a text file",
    ),
    Case(
        "-p count --output-schema s.json",
        "--output-schema s.json: line 3 column 1: is not JSON: Expecting property name enclosed in double quotes; use "
        "no comments, no last comma",
        "s.json",
        '{\n  "type": "object",\n',
    ),
    Case(
        "-p count --output-schema s.json",
        "--output-schema s.json: line 1 column 1: is not JSON: Expecting value; use no comments, no last comma",
        "s.json",
        "",
    ),
    Case(
        "-p count --output-schema s.json",
        f"--output-schema s.json: not a JSON Schema: write an object, such as {EXAMPLE}",
        "s.json",
        "[]",
    ),
    Case(
        "-p count --output-schema s.json",
        "--output-schema s.json: type: is given twice; keep one of them",
        "s.json",
        '{"type": "object", "type": "array"}',
    ),
    Case(
        "-p count --output-schema s.json",
        "failed: the agent ended without handing in its result with hand_in; the last value was refused: "
        "value.n: 'x' is not an integer",
        "s.json",
        COUNT,
        code=1,
    ),
    Case("-p hi --set activ_model=m", "--set activ_model: no such setting; did you mean 'active_model'?"),
    Case("-p hi --set active_model", "--set active_model: write it as --set KEY=VALUE"),
    Case(
        "plan run tidy.json",
        "plan tidy: input 'n' (integer) is missing: give --with n=VALUE",
        "tidy.json",
        TIDY,
    ),
    Case(
        "plan run tidy",
        "plan 'tidy' is in .vibe/plans of a folder that is not trusted: run with --trust, or vibe trust add",
        ".vibe/plans/tidy.json",
        PLAN,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.said[:60])
def test_it_is_one_sentence_and_nothing_was_done(vibe: VibeCommand, case: Case) -> None:
    vibe.replay({"agents": {"main": {"turns": [tool("hand_in", value={"n": "x"}), {"text": "so"}, {"text": "no"}]}}})
    if case.content is not None:
        (vibe.workdir / case.file).parent.mkdir(parents=True, exist_ok=True)
        (vibe.workdir / case.file).write_text(case.content)
    before = snapshot(vibe.home)
    ended = vibe(*case.words.split(), stdin=case.stdin)
    assert (ended.code, ended.out, ended.err) == (case.code, "", f"vibe: {case.said}\n")
    assert snapshot(vibe.home) == before or case.code != 2


BLANK = (
    *(
        "plan run plan.json --only",
        "plan run plan.json --reuse",
        "-p hi --output-dir",
        "-p hi --workdir",
        "-p hi --agent",
    ),
    *("-p hi --model", "-p hi --add-dir", "-p hi --enabled-tools", "-p hi --disabled-tools", "-p hi --instructions"),
    *(
        "plan run plan.json --executor",
        "plan run plan.json --bus",
        "plan run plan.json --model",
        "plan new g --workdir",
    ),
    *("models --provider", "permissions explain bash ls --agent", "plan report latest -o", "plan review latest --step"),
    *("mcp add srv https://localhost/mcp --key-env", "events tail latest --topic"),
)
"""Options whose blank value would mean another folder, more rights, or a dearer model than was meant."""


@pytest.mark.parametrize("words", BLANK)
def test_a_blank_name_is_neither_all_of_them_nor_none(vibe: VibeCommand, words: str) -> None:
    ended = vibe(*words.split(), "")

    assert (ended.code, ended.out) == (2, "")
    assert f"argument {words.rsplit(maxsplit=1)[-1]}: is blank: name one, or leave it out" in ended.err


@pytest.mark.parametrize("blank", ["", " \t"])
@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("trust add", "DIR"),
        ("trust remove", "DIR"),
        ("plan cancel latest", "STEP"),
        ("plan status latest", "STEP"),
        ("plan logs latest", "STEP"),
        ("plan review latest", "FILE"),
        ("plan clean", "ID"),
        ("events tail", "SOURCE"),
        ("events answer latest", "REQUEST"),
        ("events export --otlp http://127.0.0.1:9", "SOURCE"),
        ("cluster status", "ADDRESS"),
        ("mcp import", "FILE"),
    ],
)
def test_a_blank_word_is_not_what_is_meant_without_it(vibe: VibeCommand, words: str, name: str, blank: str) -> None:
    before = snapshot(vibe.home)

    ended = vibe(*words.split(), blank)

    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert f"argument {name}: is blank: name one, or leave it out" in ended.err
    assert snapshot(vibe.home) == before


def test_a_server_is_not_added_without_its_address(vibe: VibeCommand) -> None:
    before = snapshot(vibe.home)

    ended = vibe("mcp", "add", "srv", "")

    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "vibe: URL|COMMAND is blank: give the server's address, or the command that starts it\n"
    assert snapshot(vibe.home) == before
