"""A proposed plan on the screen: what a person reads before accepting it, and the effect of each key."""

from __future__ import annotations

from typing import Any

import pytest

from ipc.events import PlanBounds, PlanExpectation, PlannedCommand, PlanProposedEvent, StepOutline, WorkOrder
from tests.unit.cli.textual_ui.panels.stage import Stage, request, stage
from vibe.cli.textual_ui.panels.proposal_panel import ProposalPanel

PROMPT = "Write the store.\n\n```python\ndef load(path):\n    return 1\n```\nThen stop."


def proposal(draft: int = 1, prompt: str = PROMPT, **fields: Any) -> PlanProposedEvent:
    """Return a proposed plan of three steps."""
    known: dict[str, Any] = {
        "goal": "Keep notes",
        "draft": draft,
        "document": {
            "version": 1,
            "goal": "Keep notes",
            "steps": [
                {"id": "store", "title": "The store", "prompt": prompt, "verify": ["pytest -q"]},
                {"id": "cli", "title": "Commands", "prompt": "cli", "depends_on": ["store"]},
                {"id": "run", "title": "Try it", "command": "make demo", "depends_on": ["store", "cli"]},
            ],
            "decisions": [{"id": "db", "question": "Which?", "options": [{"id": "a", "label": "A"}, {"id": "b"}]}],
        },
        "steps": (
            StepOutline(
                id="store",
                title="The store",
                mode="code",
                order=WorkOrder(prompt=prompt, verify=("pytest -q",), max_tokens=200_000, max_turns=30),
            ),
            StepOutline(id="cli", title="Commands", mode="code", depends_on=("store",), workspace="worktree"),
            StepOutline(
                id="run", title="Try it", mode="run", depends_on=("store", "cli"), order=WorkOrder(when={"db": ["a"]})
            ),
        ),
        "estimate": PlanBounds(
            steps=3,
            model_steps=2,
            width=1,
            critical_path=("store", "cli", "run"),
            max_turns=60,
            max_tokens=400_000,
            max_price=1.5,
            notes=("cli has no check",),
        ),
        "commands": (
            PlannedCommand(step_id="store", command="pytest -q", purpose="verify"),
            PlannedCommand(step_id="run", command="make demo"),
        ),
        "repairs": ("a step without a title was given one",),
    }
    return PlanProposedEvent(**{**known, **fields})


FORKED = proposal(
    steps=(
        StepOutline(id="start", title="Begin", mode="code"),
        StepOutline(id="one", title="This", mode="code", depends_on=("start",)),
        StepOutline(id="two", title="That", mode="code", depends_on=("start",)),
        StepOutline(id="end", title="End", mode="code", depends_on=("one", "two")),
    )
)


def shown(on: Stage) -> list[str]:
    """Return the lines of the panel without padding at the right."""
    return [line.rstrip() for line in on.lines]


async def propose(on: Stage, event: PlanProposedEvent) -> None:
    on.app.bottom.show_proposal(event)
    await on.settle()


async def test_all_that_a_yes_is_about_is_shown() -> None:
    async with stage(100, 40) as on:
        await propose(on, proposal())

        assert "a accept and run   r revise by a sentence   e edit   s save   d drop…" in on.screen
        assert "←↑↓→ step · Enter opens · Esc later" in on.screen
        assert shown(on) == [
            "Proposed plan  Keep notes                                                              version 1",
            "no estimate yet (first plan here)   3 steps                      never more than 400k tok, $1.50",
            "",
            "                   ╭▸ ◆ cli ───────────╮",
            "  ◆ store ─────────┤    edits any file ├▸ ◆ run",
            "    edits any file │                   │    runs commands",
            "                   ╰───────────────────╯",
            "",
            "▸ store  The store                                                       code · at most 200k tok",
            "  check   pytest -q",
            "",
            "1 command and 1 check run without asking   asks you first: Which?                     c commands",
        ]
        await on.press("down", "down")
        assert shown(on)[8:10] == [
            "▸ run  Try it                                                                                run",
            "  also    only if db is a",
        ]


async def test_what_is_expected_comes_before_what_it_can_take_at_most() -> None:
    expected = PlanExpectation(seconds=95.0, tokens=61_000, cost_usd=0.148)
    async with stage(100, 40) as on:
        await propose(on, proposal(expected=expected))
        row = shown(on)[1]
        assert row.startswith("about 1.5 min · 61k tok · $0.15   3 steps  ")
        assert row.endswith("  never more than 400k tok, $1.50")


async def test_every_command_is_shown_in_full_by_one_key() -> None:
    long = f"make demo {'x' * 300}\nmake clean"
    commands = (*proposal().commands, PlannedCommand(step_id="cli", command=long))
    async with stage(100, 40) as on:
        await propose(on, proposal(commands=commands))
        await on.press("c")

        assert on.lines == [
            "Keep notes",
            "",
            "2 commands and 1 check run without asking:",
            "store, check",
            "│ pytest -q",
            "run",
            "│ make demo",
            "cli",
            f"│ make demo {'x' * 300}",
            "│ make clean",
            "",
            "decision db: Which? (A / b)",
            "",
            "never more than 60 model calls, 400,000 tokens, $1.50",
            "longest chain: store → cli → run",
            "cli has no check",
            "fixed in the model's plan: a step without a title was given one",
        ]
        await on.press("c")
        assert on.lines[0].startswith("Proposed plan")


async def test_each_key_says_what_the_person_wants() -> None:
    async with stage() as on:
        messages = on.app.heard
        await propose(on, proposal())
        await on.press("e", "s", "enter", "s", *"x.json", "enter")
        await on.press("r", "enter", "r", *"less", "enter", "tab")

        assert messages == [("edit", ""), ("save", "plan.json"), ("save", "x.json"), ("revise", "less")]
        assert on.lines[0] == "revising: less"


@pytest.mark.parametrize(("key", "word"), [("a", "run"), ("d", "drop")])
async def test_accepting_and_dropping_give_the_prompt_back(key: str, word: str) -> None:
    async with stage() as on:
        messages = on.app.heard
        await propose(on, proposal())
        if word == "drop":
            await on.press(key)
            assert messages == []
            assert "d again drops the plan" in on.lines[0]
            await on.press("down", key)
            assert messages == []
        await on.press(key)

        assert messages == [(word, "")]
        assert on.app.bottom.proposal is None
        assert on.app.focused is on.app.prompt


async def test_while_another_version_is_written_the_old_one_is_not_accepted() -> None:
    async with stage() as on:
        messages = on.app.heard
        await propose(on, proposal())
        await on.press("r", "x", "enter", "tab", "a", "e", "r")
        assert messages == [("revise", "x")]

        panel = on.app.bottom.proposal
        assert panel is not None
        panel.tell("no plan: the model gave none")
        await on.settle()
        assert "no plan: the model gave none" in on.screen
        await on.press("a")
        assert messages[-1] == ("run", "")


async def test_a_new_version_says_what_is_different() -> None:
    second = proposal(2, PROMPT.replace("return 1", "return 2"))
    document = second.document
    document["steps"] = [*document["steps"][:2], {"id": "docs", "title": "Words", "prompt": "docs"}]
    async with stage(100, 40) as on:
        await propose(on, proposal())
        await propose(on, second)

        at = on.lines.index("changed since version 1:")
        assert on.lines[at + 1 : at + 4] == ["~ store: prompt differs", "+ docs  ", "− run  Try it"]  # noqa: RUF001  a sign
        assert any("◆ store ~" in line for line in on.lines)
        assert not any(f"cli {mark}" in line for line in on.lines for mark in "+~")
        await on.press("enter")
        assert "│ -    return 1" in on.lines
        assert "│ +    return 2" in on.lines


async def test_a_step_is_opened_with_its_whole_prompt() -> None:
    long = "Read.\n" + "\n".join(f"line {number}" for number in range(2_000))
    async with stage(100, 40) as on:
        await propose(on, proposal(prompt=long))
        await on.press("enter")
        assert "line 1999" in on.lines
        await on.press("escape", "down", "down", "enter")
        assert "│ make demo" in on.lines
        assert on.lines[0] == "run  Try it"


@pytest.mark.parametrize("theme", ["textual-dark", "textual-light"])
async def test_code_in_a_prompt_is_coloured_and_readable_in_every_theme(theme: str) -> None:
    async with stage(100, 40) as on:
        on.app.theme = theme
        await propose(on, proposal())
        await on.press("enter")

        y = next(number for number, row in enumerate(on.rows) if "def load" in row)
        styles = {
            segment.text.strip(): segment.style for segment in on.strips[y] if segment.text.strip() and segment.style
        }
        colours = {style.color.triplet for style in styles.values() if style.color and style.color.triplet}
        grounds = {style.bgcolor.triplet for style in styles.values() if style.bgcolor and style.bgcolor.triplet}
        assert len(colours) > 1
        assert all(abs(sum(colour) - sum(ground)) > 150 for colour in colours for ground in grounds)


async def test_a_request_comes_first_and_the_proposal_is_there_after_it() -> None:
    async with stage() as on:
        await propose(on, proposal())
        await on.press("down")
        on.app.clock.now += 1
        await on.approve(request())
        assert "Permission" in on.screen
        on.app.clock.now += 1
        await on.press("1")
        assert any(line.startswith("▸ cli  Commands") for line in on.lines)
        assert isinstance(on.app.bottom.shown, ProposalPanel)


async def test_nothing_in_a_plan_reaches_the_screen_raw() -> None:
    evil = "\x1b[2J[red]\u202ex\x9b"
    step = StepOutline(id="s", title=evil, mode=evil, order=WorkOrder(prompt=evil, verify=(evil,)))
    event = proposal(
        goal=evil,
        steps=(step,),
        document={"steps": [{"id": "s", "prompt": f"{evil}\n```{evil}\n{evil}\n```", "verify": [evil]}]},
        commands=(PlannedCommand(step_id=evil, command=evil),),
        repairs=(evil,),
    )
    async with stage(100, 40) as on:
        await propose(on, event)
        seen = on.screen
        await on.press("c")
        seen += on.screen
        await on.press("escape", "enter")
        seen += on.screen
        assert "[red]x" in seen
        assert "\\x1b[2J[red]\\u202ex\\x9b" in seen
        assert not [char for char in seen if (char < " " and char != "\n") or char in "\u202e\x9b\x7f"]


async def test_a_small_screen_shows_all_of_it_in_turn() -> None:
    async with stage(20, 5) as on:
        await propose(on, proposal())
        assert all(word in on.screen for word in ("Proposed plan", "a run"))
        await on.press("end")
        assert "▸ store" in on.screen
        await on.press("home")
        assert "Proposed plan" in on.screen
        await on.press("c")
        assert "│ make demo" in on.lines
        await on.press("end")
        assert "given one" in on.screen


async def test_arrows_go_along_the_edges_of_the_plan() -> None:
    async with stage(100, 40) as on:
        await propose(on, FORKED)
        seen: list[str] = []
        for key in ("right", "right", "left", "down", "down", "down", "up", "left", "left", "left"):
            await on.press(key)
            seen += [line.split()[1] for line in on.lines if line.startswith("▸")]

        assert seen == ["one", "end", "one", "two", "end", "end", "two", "start", "start", "start"]


async def test_nothing_moves_when_another_step_is_chosen() -> None:
    async with stage(100, 40) as on:
        await propose(on, proposal())
        rows = len(on.lines)
        await on.press("down")
        assert len(on.lines) == rows


async def test_a_step_is_chosen_where_it_is_pointed_to() -> None:
    async with stage(100, 40) as on:
        await propose(on, FORKED)
        y = next(number for number, row in enumerate(on.rows) if "two" in row)
        await on.pilot.click(offset=(on.rows[y].index("two"), y))
        await on.settle()

        assert any(line.startswith("▸ two") for line in on.lines)


async def test_a_narrow_window_has_rails_and_a_wide_one_columns() -> None:
    async with stage(100, 40) as on:
        await propose(on, FORKED)
        assert any("╭▸ ◆ one" in line for line in on.lines)
        await on.pilot.resize_terminal(50, 40)
        await on.settle()
        assert any(line.startswith("  ├─╮") for line in on.lines)


async def test_a_group_of_many_steps_is_opened_and_its_steps_are() -> None:
    steps = tuple(
        StepOutline(id=f"s{number}", title=f"Step {number}", mode="code", order=WorkOrder(tags=(f"g{number // 25}",)))
        for number in range(50)
    )
    document = {"steps": [{"id": step.id, "prompt": f"Do {step.id}."} for step in steps]}
    async with stage(100, 40) as on:
        await propose(on, proposal(steps=steps, document=document))
        assert any(line.startswith("▸ g0") for line in on.lines)
        await on.press("down", "enter")
        assert any(line.startswith("▸ s25  Step 25") for line in on.lines)
        await on.press("down", "enter")
        assert "Do s26." in on.lines
        await on.press("escape", "escape")
        assert any(line.startswith("▸ g1") for line in on.lines)
        assert on.app.bottom.proposal is on.app.bottom.shown
        await on.press("escape")
        assert on.app.bottom.shown is on.app.prompt


async def test_what_runs_without_asking_is_in_sight_however_long_the_plan_is() -> None:
    names = [f"s{number}" for number in range(20)]
    steps = tuple(
        StepOutline(id=name, title="T", mode="code", depends_on=tuple(names[:at][-1:])) for at, name in enumerate(names)
    )
    bounds = PlanBounds(steps=20, max_tokens=4_000_000, worst_price=32.0)
    async with stage(80, 24) as on:
        await propose(on, proposal(steps=steps, estimate=bounds))
        assert "never more than 4M tok, $32" in on.screen
        assert "1 command and 1 check run without asking" in on.screen
        await on.press(*["down"] * 19)
        assert "s19" in on.screen
