"""A proposed plan on the screen: what is read before a yes, and what each key does."""

from __future__ import annotations

from typing import Any

import pytest
from textual.events import Key

from ipc.events import PlanBounds, PlannedCommand, PlanProposedEvent, StepOutline, WorkOrder
from tests.unit.cli.textual_ui.panels.stage import Stage, request, stage
from vibe.cli.textual_ui.panels.proposal_panel import ProposalPanel

PROMPT = "Write the store.\n\n```python\ndef load(path):\n    return 1\n```\nThen stop."


def proposal(draft: int = 1, prompt: str = PROMPT, **fields: Any) -> PlanProposedEvent:
    """A plan of three steps."""
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


async def propose(on: Stage, event: PlanProposedEvent) -> None:
    on.app.bottom.show_proposal(event)
    await on.settle()


async def test_all_that_a_yes_is_about_is_shown() -> None:
    async with stage(100, 40) as on:
        await propose(on, proposal())

        assert "Proposed plan" in on.screen
        assert "a accept and run  e edit  r revise by a sentence  s save  d drop" in on.screen
        assert on.lines == [
            "version 1: Keep notes",
            "3 steps, 2 by a model, up to 1 side by side; at worst 60 model calls, 400,000 tokens, $1.50",
            "critical path: store → cli → run",
            "note: cli has no check",
            "",
            "▸ ◆ store  The store",
            "    code · at most 200,000 tokens, 30 model calls",
            "    check: pytest -q",
            "  └ ◆ cli  Commands",
            "      code · in a worktree",
            "    └ ▶ run  Try it",
            "        run · also after store · only if db is a",
            "",
            "would run without asking (2):",
            "store (check):",
            "│ pytest -q",
            "run:",
            "│ make demo",
            "",
            "decision db: Which? (A / b)",
            "corrected: a step without a title was given one",
        ]


async def test_each_key_says_what_the_person_wants() -> None:
    async with stage() as on:
        messages = on.app.heard
        await propose(on, proposal())
        await on.press("e", "s", "enter", "s", *"x.json", "enter")
        await on.press("r", "enter", "r", *"less", "enter")

        assert messages == [("edit", ""), ("save", "plan.json"), ("save", "x.json"), ("revise", "less")]
        assert on.lines[0] == "asked for another version: less"


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
        await on.press("r", "x", "enter", "a", "e", "r")
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
        assert on.lines[at + 1 : at + 4] == ["~ store: prompt differs", "+ docs  ", "- run  Try it"]
        assert any(line.endswith("store  The store  changed") for line in on.lines)
        assert not any(line.endswith(("cli  Commands  changed", "cli  Commands  new")) for line in on.lines)
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
        assert on.lines[0] == "run: Try it"


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
        assert "▸ └ ◆ cli  Commands" in on.lines
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
        await on.press("enter")
        seen += on.screen
        assert "[red]x" in seen
        assert "\\x1b[2J[red]\\u202ex\\x9b" in seen
        assert not [char for char in seen if (char < " " and char != "\n") or char in "\u202e\x9b\x7f"]


async def test_a_small_screen_shows_all_of_it_in_turn() -> None:
    async with stage(20, 5) as on:
        await propose(on, proposal())
        assert all(word in on.screen for word in ("Proposed plan", "a run", "version 1:"))
        await on.press("end")
        assert "one" in on.rows[2]
        await on.press("up", "pageup")
        assert "make demo" in on.lines[-4]
        assert "version 1:" not in on.screen
        await on.press("home")
        assert "version 1:" in on.screen


async def test_letters_that_come_at_once_after_r_are_the_sentence_and_no_keys() -> None:
    async with stage(100, 40) as on:
        await propose(on, proposal())
        for key in ("r", "a", "d", "e", "enter"):
            on.app.post_message(Key(key, key if len(key) == 1 else "\r"))
        await on.until(lambda: on.app.heard)

        assert on.app.heard == [("revise", "ade")]
