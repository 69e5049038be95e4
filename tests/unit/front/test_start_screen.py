"""The start screen: each fact, the case without it, and the room it takes."""

from __future__ import annotations

import time
from typing import Any

import pytest
from msgspec.structs import replace
from rich.cells import cell_len

from ipc.events import Expectation
from planner.plan.status import PlanStatus
from planner.store.folder import PlanSummary
from vibe.front.cells import Line, text_of
from vibe.front.start_screen import (
    AgentFacts,
    GitFacts,
    ModelFacts,
    ProjectFacts,
    SandboxFacts,
    StartFacts,
    choices,
    past_time,
    start_lines,
)

NOW = time.mktime((2026, 11, 28, 10, 30, 0, 0, 0, -1))
YESTERDAY = time.mktime((2026, 11, 27, 17, 40, 0, 0, 0, -1))
AGENT = AgentFacts(
    model=ModelFacts(name="orion-large", prices=(2.0, 8.0)),
    mode="asks before it edits or runs commands",
    sandbox=SandboxFacts(name="bubblewrap"),
    tools=12,
    skills=2,
    servers=1,
)
LEFT = PlanSummary(
    plan_id="0a1b2c", goal="Make receipts and exports right", counts={"completed": 1, "pending": 5}, updated=YESTERDAY
)
PROJECT = ProjectFacts(git=GitFacts(branch="main", changed=3), docs=["AGENTS.md"], tests="tests/", left=[LEFT])
FIRST = StartFacts(version="0.1", folder="~/shoplist")
FACTS = replace(FIRST, agent=AGENT, project=PROJECT)


def drawn(facts: StartFacts, width: int = 102, **options: Any) -> list[str]:
    return [text_of(line) for line in start_lines(facts, NOW, width, **options)]


def of_project(**fields: Any) -> StartFacts:
    return replace(FACTS, project=replace(PROJECT, **fields))


def of_agent(**fields: Any) -> StartFacts:
    return replace(FACTS, agent=replace(AGENT, **fields))


def style_of(lines: list[Line], text: str) -> str:
    return next(style for line in lines for piece, style in line if text in piece)


def test_all_of_it_is_as_it_was_designed() -> None:
    lines = drawn(FACTS, marked=0)

    assert [line.split("  ")[-1].strip() for line in lines[:3]] == [
        "orion-large · $2 in, $8 out per M tok",
        "sandbox · bubblewrap, no network",
        "12 tools · 2 skills · 1 MCP server",
    ]
    assert {len(line) for line in lines[:3]} == {99}
    assert [line[:55].rstrip() for line in lines] == [
        "   vibe 0.1",
        "   ~/shoplist · main · 3 files changed",
        "   AGENTS.md read · asks before it edits or runs comman",
        "",
        "   Paused here",
        "   ▸ Make receipts and exports right",
        "",
        "   Try",
        "     explain how this project is built",
        "     fix the failing tests",
        "     /plan add CSV export, with tests",
        "",
        "   ↓ ↑ choose   Enter resume   or just type",
    ]
    assert lines[5].endswith("1 of 6 done · yesterday 17:40")


def test_at_first_there_are_folder_and_version() -> None:
    assert drawn(FIRST, marked=0) == ["   vibe 0.1", "   ~/shoplist"]
    assert choices(FIRST, NOW) == []


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (of_project(git=GitFacts(is_repository=False)), "~/shoplist · no git repository"),
        (of_project(git=GitFacts(branch="main", changed=0)), "~/shoplist · main · nothing changed"),
        (of_project(git=GitFacts(branch="main", changed=1)), "~/shoplist · main · 1 file changed"),
        (of_project(git=GitFacts(branch="main")), "~/shoplist · main  "),
        (of_project(git=GitFacts(changed=2)), "~/shoplist · no branch · 2 files changed"),
        (of_project(docs=()), "no AGENTS.md (/init writes one) · asks"),
        (of_project(docs=(), unread="AGENTS.md"), "AGENTS.md not read: folder not trusted · asks"),
        (of_project(docs=["AGENTS.md", "~/.vibe/AGENTS.md"]), "AGENTS.md and 1 more read · asks"),
        (of_agent(model=ModelFacts(name="m", prices=None)), "  m"),
        (of_agent(model=ModelFacts(name="m", prices=(0.4, 0.0))), "m · $0.40 in, $0 out per M tok"),
        (of_agent(model=ModelFacts(name="m", has_key=False)), "m · no key yet: /setup"),
        (of_agent(sandbox=SandboxFacts()), "no sandbox · can do whatever you can"),
        (of_agent(sandbox=SandboxFacts(name="Landlock", has_network=True)), "sandbox · Landlock, with network"),
        (of_agent(tools=1, skills=0, servers=0), "  1 tool"),
        (of_agent(mode="AUTO-APPROVES EVERYTHING", is_unbound=True), "AUTO-APPROVES EVERYTHING"),
    ],
)
def test_each_fact_says_how_it_is(facts: StartFacts, said: str) -> None:
    assert any(said in f"{line}  " for line in drawn(facts, 140))


def test_amber_is_for_no_sandbox_alone_and_red_for_who_asks_nothing() -> None:
    bad = of_agent(sandbox=SandboxFacts(), mode="AUTO-APPROVES EVERYTHING", is_unbound=True)
    lines = start_lines(bad, NOW, 102)
    others = start_lines(replace(FACTS, project=ProjectFacts(git=GitFacts(is_repository=False))), NOW, 102)

    assert style_of(lines, "no sandbox") == "warn"
    assert style_of(lines, "AUTO-APPROVES") == "bold failed"
    assert not any("warn" in style or "failed" in style for line in others for _, style in line)


@pytest.mark.parametrize(
    ("facts", "lines"),
    [
        (FACTS, ["/plan resume 0a1b2c", "explain how this project is built", "fix the failing tests"]),
        (of_project(left=(), tests=""), ["explain how this project is built", "/plan add CSV export"]),
        (of_project(left=(), is_empty=True, tests=""), ["write a command line tool that counts words"]),
        (replace(of_project(left=()), agent=replace(AGENT, model=ModelFacts(name="m", has_key=False))), ["/plan demo"]),
        (replace(FACTS, is_new=False), ["/plan resume 0a1b2c"]),
    ],
    ids=["all", "no tests", "no files", "no key", "not new"],
)
def test_what_can_be_chosen_is_by_what_is_there(facts: StartFacts, lines: list[str]) -> None:
    known = [choice.line for choice in choices(facts, NOW)]

    assert known[: len(lines)] == lines
    assert [choice.is_sent for choice in choices(facts, NOW)] == [
        line.startswith(("/plan resume", "/plan demo")) for line in known
    ]


def test_of_a_conversation_that_goes_on_only_what_was_left_is_shown() -> None:
    goes_on = replace(FACTS, is_new=False)
    assert drawn(goes_on, marked=0) == [
        "▌ Paused plan  1 of 6 done · paused yesterday 17:40",
        "▌ Make receipts and exports right",
        "▌ Enter resume   Tab look   Esc leave it",
    ]
    assert not any("Enter" in line for line in drawn(goes_on))
    assert not any("Make" in line for line in drawn(replace(goes_on, with_cards=["0a1b2c"])))


@pytest.mark.parametrize(
    ("status", "reason", "why"),
    [
        (PlanStatus.PAUSED, "left", " when you left"),
        (PlanStatus.PAUSED, "decision", ", waits for a decision"),
        (PlanStatus.PAUSED, "user", ""),
        (PlanStatus.ACTIVE, None, " as its run broke off"),
    ],
)
def test_a_paused_plan_says_why_and_what_it_will_still_take(status: PlanStatus, reason: str | None, why: str) -> None:
    left = replace(LEFT, status=status, reason=reason)
    ahead = {LEFT.plan_id: Expectation(seconds=50.0, tokens=40_000, cost_usd=0.11)}
    lines = drawn(replace(of_project(left=[left], to_go=ahead), is_new=False))

    assert lines[0].startswith(f"▌ Paused plan  1 of 6 done · paused yesterday 17:40{why}  ")
    assert lines[0].endswith("  about 50 s, $0.11 to go")


def test_of_several_plans_that_were_left_one_is_marked() -> None:
    lines = drawn(replace(of_project(left=[LEFT, LEFT]), is_new=False), marked=1)
    assert [line.partition("Make")[0] for line in lines] == [
        "▌ Paused plan    ",
        "▌ Paused plan  ▸ ",
        "▌ ↓ ↑ choose   Enter resume   Tab look   Esc leave it",
    ]


def test_the_mark_is_at_what_is_chosen_and_the_keys_say_what_enter_does() -> None:
    lines = drawn(FACTS, marked=2)

    assert [line.strip() for line in lines if "▸" in line] == ["▸ fix the failing tests" + " " * 67 + "tests/"]
    assert lines[-1].strip() == "↓ ↑ choose   Enter take it into the line   or just type"
    assert not any("▸" in line or "Enter" in line for line in drawn(FACTS))


@pytest.mark.parametrize("width", [1, 2, 5, 12, 19, 40, 59, 60, 72, 79, 80, 102, 118, 198])
@pytest.mark.parametrize("facts", [FIRST, FACTS, of_project(git=GitFacts(is_repository=False), docs=())])
def test_no_line_is_wider_than_the_window_and_none_is_lost_that_must_be_seen(facts: StartFacts, width: int) -> None:
    lines = start_lines(facts, NOW, width, marked=0)

    assert {sum(cell_len(text) for text, _ in line) for line in lines} == {width}
    if facts is FACTS and width >= 58:
        shown = "\n".join(map(text_of, lines))
        for must in ("~/shoplist", "main", "orion-large", "$2 in", "asks before", "bubblewrap", "Make receipts"):
            assert must in shown


def test_in_a_low_window_the_empty_rows_go() -> None:
    assert "" in drawn(FACTS, rows=30, marked=0)
    assert "" not in drawn(FACTS, rows=12, marked=0)


def test_what_comes_from_outside_is_cleaned() -> None:
    evil = "a\x1b[31m\nb\u202e"
    facts = of_project(left=[replace(LEFT, goal=evil)], git=GitFacts(branch=evil), docs=[evil], tests=evil)
    facts = replace(facts, folder=evil, agent=replace(AGENT, model=ModelFacts(name=evil)))

    assert all(char.isprintable() for line in drawn(facts) for char in line)


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ((2026, 11, 28, 0, 1), "00:01"),
        ((2026, 11, 28, 11, 0), "11:00"),
        ((2026, 11, 27, 23, 59), "yesterday 23:59"),
        ((2026, 11, 23, 9, 5), "Monday 09:05"),
        ((2026, 11, 21, 9, 5), "2026-11-21"),
        ((2025, 1, 2, 9, 5), "2025-01-02"),
    ],
)
def test_a_time_is_told_as_people_say_it(at: tuple[int, ...], said: str) -> None:
    assert past_time(time.mktime((*at, 0, 0, 0, -1)), NOW) == said  # pyright: ignore[reportArgumentType]  five and four
