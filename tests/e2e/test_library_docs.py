"""The guide's programs with conversations do what it says, and strict type checkers accept all of its programs.

Covers ``vibe.sdk``.
"""

from __future__ import annotations

import json
import re
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import REPOSITORY, VibeCommand
from tests.e2e.test_docs import blocks
from tests.e2e.test_installs import run, uv, variables
from tests.fakes.model_server import ModelServer, Received, Reply, ServedCall

GUIDE = "docs/guide/library.md"


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def program_of(vibe: VibeCommand, name: str) -> Path:
    """Write a program of the guide into the workspace, and return its path."""
    [block] = [one for one in blocks(GUIDE, "python") if one.opening == name]
    (vibe.workdir / name).write_text(block.text)
    return vibe.workdir / name


def ran(vibe: VibeCommand, name: str, turns: list[dict[str, Any]], stdin: str = "") -> str:
    vibe.replay({"agents": {"main": {"turns": turns}}})
    ended = vibe.run([sys.executable, str(program_of(vibe, name))], stdin=stdin)
    assert (ended.code, ended.err) == (0, "")
    return ended.out


def test_two_lines_answer(vibe: VibeCommand) -> None:
    assert ran(vibe, "answer.py", [{"text": "It greets."}]) == "It greets.\n"


def test_text_and_events_stream(vibe: VibeCommand) -> None:
    text, reads = {"text": "It says hello."}, call("read_file", path="stream.py")

    assert ran(vibe, "stream.py", [text]) == "It says hello.\nIt says hello.\n"
    assert ran(vibe, "stream.py", [reads, text]) == "It says hello.\nread_file\nIt says hello.\n"


def test_a_typed_answer_is_put_right_after_a_wrong_one(vibe: VibeCommand) -> None:
    wrong, right = (call("hand_in", value={"file": "a.py", "line": line}) for line in (0, 3))

    assert ran(vibe, "typed.py", [wrong, right]) == "a.py:3\n"
    refused = ran(vibe, "typed.py", [wrong, {"text": "I can't"}, {"text": "I can't"}, {"text": "I can't"}])
    assert "lines count from 1" in refused


def compared() -> dict[str, tuple[list[str], str]]:
    """Return the code for each task of the guide's comparison, and the number of lines it claims."""
    text = (REPOSITORY / GUIDE).read_text().partition("## Beside other libraries")[2]
    rows = [line.split("|")[1:4] for line in text.splitlines() if line.startswith("| ") and "`vibe.sdk`" not in line]
    return {task.strip(): (re.findall("`([^`]+)`", code), lines.strip()) for task, code, lines in rows}


IMPORT = "from vibe.sdk import query, resume_plan, run_plan"
BUG = "from typing import Any as Bug"
PLAN = """plan = {"version": 1, "goal": "g", "steps": [{"id": "a", "title": "A", "mode": "run", "command": "true",
    "decision": "d"}],
    "decisions": [{"id": "d", "question": "?", "options": [{"id": "y", "label": "Y"}, {"id": "n", "label": "N"}]}]}
choose, plan_id = lambda event: None, "latest"
"""


def test_the_lines_of_the_comparison_are_those_of_programs_that_run(vibe: VibeCommand) -> None:
    tasks = compared()
    (text,), (typed,), (stream,), (tools,), (ask, approve), (run, resume), (step,) = (
        code for code, _ in tasks.values()
    )
    yes = f'print(query("Go", {tools}, {approve}).wait().text)'
    whole = {
        "one answer as text": [IMPORT, text],
        "the same, typed": [IMPORT, typed],
        "text as it arrives": [IMPORT, stream],
        "a Python function as a tool": [],
        "a function says yes or no to a call": [ask],
        "steps, a decision, resumed after a kill": [IMPORT, run, resume],
        "a step in Python": [],
    }
    plan_of_one = '{"version": 1, "goal": "g", "steps": [{"id": "a", "title": "A", "mode": "code"}]}'
    touch = call("bash", command="touch made")
    programs: list[tuple[list[str], list[dict[str, Any]], int]] = [
        ([IMPORT, text], [{"text": "ok"}], 0),
        ([IMPORT, BUG, typed], [call("hand_in", value=1)], 0),
        (["import asyncio", IMPORT, "async def main():", f"    {stream}", "asyncio.run(main())"], [{"text": "ok"}], 0),
        ([IMPORT, ask, "def stock(part: str): return 7", yes], [call("stock", part="a"), touch, {"text": "ok"}], 0),
        ([IMPORT, PLAN, run], [], 1),  # the decision is left open
        ([IMPORT, PLAN, resume.replace("choose", 'lambda event: "y"')], [], 0),
        ([IMPORT, "def count(task): return 1", f"run_plan({plan_of_one}, {step}).wait()"], [], 0),
    ]

    assert {task: lines.lstrip("+") for task, (_, lines) in tasks.items()} == {
        task: str(len(lines)) for task, lines in whole.items()
    }
    for lines, turns, code in programs:
        vibe.replay({"agents": {"main": {"turns": turns}}})
        (vibe.workdir / "short.py").write_text("\n".join(lines))
        ended = vibe.run([sys.executable, "short.py"])
        assert ended.code == code, ended.err
    assert (vibe.workdir / "made").exists()


def test_functions_are_tools_of_a_session(vibe: VibeCommand) -> None:
    turns = [
        call("stock", part="bolts"),
        call("stock", part="bolt"),
        {"text": "There are 7."},
        call("order_parts", part="bolt", count=3),
        call("hand_in", value=["bolt"]),
    ]

    said = ran(vibe, "tools.py", turns)

    assert said.startswith("['bolt'] {'bolt': 10} ")
    told = json.dumps((vibe.home / "logs" / "session" / said.split()[-1] / "messages.jsonl").read_text())
    assert "there is no bolts; known are: bolt" in told


def writes_or_lists(request: Received) -> Reply:
    """Call ``write_file`` for a prompt to write, and just finish for any other."""
    messages: list[dict[str, Any]] = request.body["messages"]
    if messages[-1]["role"] != "user" or "Write" not in messages[-1]["content"]:
        return Reply(text="done")
    content = {"path": "hello.txt", "content": "hello"}
    return Reply(tool_calls=(ServedCall(name="write_file", arguments=json.dumps(content)),))


@pytest.mark.parametrize(("typed", "files"), [("y", "('hello.txt',) done"), ("no", "() done")])
def test_a_person_is_asked_while_another_run_goes_on(
    vibe: VibeCommand, server: ModelServer, typed: str, files: str
) -> None:
    server.responder = writes_or_lists

    ended = vibe.run([sys.executable, str(program_of(vibe, "asking.py"))], stdin=f"{typed}\n")

    assert (ended.code, ended.err) == (0, "")
    assert files in ended.out


TYPES = """
from typing import Any, Literal, assert_type

from vibe.sdk import Answer, Run, Session, query


class Bug: ...


session = Session(model="m", read_only=True)
assert_type(query("a"), Run[Answer[None]])
assert_type(query("a", output=Bug), Run[Answer[Bug]])
assert_type(query("a", output=list[int]), Run[Answer[list[int]]])
assert_type(query("a", output={"type": "object"}), Run[Answer[Any]])
assert_type(query("a", output=Literal["x", "y"]), Run[Answer[Any]])
assert_type(query("a", output=Bug | None), Run[Answer[Any]])
assert_type(session.send("a", output=Bug), Run[Answer[Bug]])
assert_type(session.send("a"), Run[Answer[None]])
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the guide's programs, beside a virtual environment in which the wheel is installed."""
    folder = tmp_path_factory.mktemp("programs")
    env = variables(VIRTUAL_ENV=str(folder / ".venv"))
    for words in (
        ["build", "--wheel", "-q", "-o", folder / "dist", REPOSITORY],
        ["venv", "-q", "--python", sys.executable, folder / ".venv"],
    ):
        assert run(uv(), *words, env=env).returncode == 0
    [wheel] = (folder / "dist").glob("*.whl")
    done = run(uv(), "pip", "install", "-q", "--no-deps", wheel, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    place = Path(sysconfig.get_path("purelib"))
    others = [
        one for one in place.iterdir() if not one.name.startswith(("_", "vibe_orchestrator")) and one.suffix != ".pth"
    ]
    [packages] = (folder / ".venv").glob("lib/*/site-packages")
    for other in others:
        if not (packages / other.name).exists():
            (packages / other.name).symlink_to(other)
    for block in blocks(GUIDE, "python"):
        (folder / block.opening).write_text(block.text)
    (folder / "types_of_answers.py").write_text(TYPES)
    return folder


def test_mypy_has_nothing_against_the_guide(installed: Path) -> None:
    words = [
        "--strict",
        "--python-executable",
        installed / ".venv" / "bin" / "python",
        "--cache-dir",
        installed / "cache",
    ]

    done = run(sys.executable, "-m", "mypy", *words, *installed.glob("*.py"), env=variables(), cwd=installed)

    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_pyright_has_nothing_against_the_guide(installed: Path) -> None:
    (installed / "pyrightconfig.json").write_text(
        json.dumps({"typeCheckingMode": "strict", "venvPath": ".", "venv": ".venv", "include": ["*.py"]})
    )

    done = run(sys.executable, "-m", "pyright", "--project", installed, env=variables(), cwd=installed)

    assert done.returncode == 0, done.stdout
