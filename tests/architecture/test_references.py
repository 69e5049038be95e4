"""The reference pages match the code, and links and commands on all pages lead somewhere."""

from __future__ import annotations

import re
import runpy
import shlex
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest

from ipc.events import StepOutline
from planner.plan.status import StepStatus
from planner.state.state import StepState
from subagents.step_result import AgentUsage, StepResult
from tests.architecture.project import ROOT, shown
from vibe.app.engine.result_record import RunRecord
from vibe.cli.exit_codes import ExitCode
from vibe.cli.parser import TextRequested
from vibe.core.messages import Denial, Outcome, Usage

SCRIPT = runpy.run_path(str(ROOT / "scripts" / "gen-references"))
REFERENCE = ROOT / "docs" / "reference"
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"(?:^|`|uv run (?:--no-dev )?)(?P<words>vibe(?: [^`\n]*)?)(?:`|$)", re.MULTILINE)
DOCUMENTS = cast("dict[str, Callable[[], dict[str, str]]]", SCRIPT["DOCUMENTS"])
DOCUMENTS.update({name: cache(parts) for name, parts in DOCUMENTS.items()})

FILES = cast("dict[str, Callable[[], str]]", SCRIPT["FILES"])


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_reference_is_current(name: str) -> None:
    reference = cast("Callable[[str], str]", SCRIPT["reference"])(name)

    assert text_of(REFERENCE / name) == reference, "run scripts/gen-references"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_reference_has_room_for_every_generated_part(name: str) -> None:
    part_names = cast("Callable[[str], set[str]]", SCRIPT["part_names"])

    assert part_names(name) == set(DOCUMENTS[name]())


@pytest.mark.parametrize("name", FILES)
def test_a_generated_file_is_current(name: str) -> None:
    assert text_of(ROOT / name) == FILES[name](), "run scripts/gen-references"


def test_every_event_class_is_in_the_reference() -> None:
    sections = cast("dict[str, list[type]]", cast("Callable[[], Any]", SCRIPT["event_sections"])())
    subclasses = {kind.__name__ for kind in SCRIPT["events"].BaseEvent.__subclasses__()}

    assert {kind.__name__ for kinds in sections.values() for kind in kinds} == subclasses


def documented(heading: str) -> set[str]:
    """Return the names in the first column of the table below a line of cli.md."""
    table = text_of(REFERENCE / "cli.md").partition(f"\n{heading}\n")[2].lstrip("\n").partition("\n\n")[0]
    return set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))


@pytest.mark.parametrize(
    ("heading", "part"),
    [
        ("### Result record", ()),
        ("An entry of `steps`:", ("steps", 0)),
        ("An entry of `agents`:", ("agents", 0)),
        ("An entry of `denied`:", ("denied", 0)),
        ("`usage` everywhere:", ("usage",)),
    ],
    ids=["record", "steps", "agents", "denied", "usage"],
)
def test_the_documented_record_is_the_one_that_is_printed(heading: str, part: Iterable[str | int]) -> None:
    usage = Usage(prompt_tokens=1, completion_tokens=1, calls=1)
    document: Any = RunRecord(
        outcome=Outcome.FAILED,
        session_id="s",
        result="",
        duration_s=1.0,
        usage=usage,
        cost_usd=None,
        plan_id="p",
        steps=[
            StepState(
                outline=StepOutline(id="a", title="A", mode="code"),
                status=StepStatus.FAILED,
                reason="verify",
                detail="because",
                result=StepResult(outcome=Outcome.FAILED, output={}),
            )
        ],
        agents=[("a", AgentUsage(agent_id="x", usage=usage))],
        denied=[Denial(tool="bash", summary="rm", reason="no", by="rule")],
    ).as_document()
    for key in part:
        document = document[key]

    assert documented(heading) == set(document)


def test_every_exit_code_is_documented() -> None:
    table = text_of(REFERENCE / "cli.md").partition("## Exit codes")[2]
    codes = [int(code) for line in re.findall(r"^\| ([\d, ]+) \|", table, re.MULTILINE) for code in line.split(",")]

    assert codes == sorted(ExitCode)


def shown_commands(page: Path) -> Iterator[str]:
    """Yield the vibe commands on a page, except those with placeholders."""
    for match in COMMAND.finditer(text_of(page)):
        words = match["words"].partition(" > ")[0].strip()
        if " " in words and not re.search(r"\.\.\.|[|$…\[]", words):
            yield words


@cache
def parsers() -> dict[str, ArgumentParser]:
    """Return the parser of each command."""
    return {parser.prog: parser for parser in cast("Callable[[], Iterable[ArgumentParser]]", SCRIPT["parsers"])()}


def check_call(words: list[str]) -> None:
    """Parse a call with the real command line parser. A command that is named without arguments must exist."""
    name, *rest = [word for word in words if word != "--debug"]
    known = parsers()
    length = next(length for length in (2, 1, 0) if " ".join([name, *rest[:length]]) in known)
    with suppress(TextRequested):  # --help and --version are calls as well
        if given := rest[length:]:
            known[" ".join([name, *rest[:length]])].parse_args(given)


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_every_command_that_is_shown_is_one(page: Path) -> None:
    for words in shown_commands(page):
        check_call(shlex.split(words))


def test_commands_are_found_where_they_are_shown() -> None:
    calls = {page.name: list(shown_commands(page)) for page in PAGES}

    assert "vibe plan run --dry-run checks.json" in calls["ci.md"]
    assert "vibe plan run --approve edits plans-examples/quickstart.json" in calls["README.md"]


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text_of(page)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_every_link_leads_somewhere(page: Path) -> None:
    for match in LINK.finditer(FENCE.sub("", text_of(page))):
        path, _, anchor = match["target"].partition("#")
        if "://" in path:
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), match["target"]
        assert not anchor or anchor in anchors(target), match["target"]


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_ids_of_plans_look_like_those_that_runs_print(page: Path) -> None:
    assert re.findall(r"\b20\d{6}-[0-9a-f]{6}\b", text_of(page)) == []
