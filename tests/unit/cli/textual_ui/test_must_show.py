"""The things that the screen must show, also in a terminal with few colours or none.

Each of the sixteen has tests, and most have pictures in all sizes (``test_pictures.py``):

1. folder, branch, model, price, mode and sandbox before the first prompt: tests/unit/front/test_start_screen.py
2. a counter of seconds after one second, and a stall after ten: tests/unit/front/test_working_line.py
3. a cross and the reason for a nonzero exit code: tests/unit/cli/textual_ui/presenters/test_chat_presenter.py
4. each open request within one key press, and still open after any detour: tests/unit/cli/textual_ui/test_keys.py
5. the files a planner reads, and its steps as they arrive: tests/unit/cli/textual_ui/presenters/test_plan_cards.py
6. an estimate ahead of the bound, the shape, each command: tests/unit/cli/textual_ui/panels/test_proposal_panel.py
7. bars of parallel steps, failed checks, and which step waits for which: tests/unit/front/test_plan_card.py
8. of 30 steps, all that run, ask or have failed, in 24 rows: tests/unit/front/test_plan_card.py
9. that a step fixed itself: tests/unit/front/test_plan_card.py, and in lines: tests/unit/front/test_progress.py
10. retrying, skipping, steering and opening a step with one key: tests/unit/cli/textual_ui/panels/test_plan_panels.py
11. the changes of each step, and the way to undo them: tests/unit/cli/textual_ui/screens/test_review_screen.py
12. a paused plan when leaving, in the shell and when coming back: tests/e2e/test_screen.py
13. a preview in every picker: tests/unit/cli/textual_ui/screens/test_picker_screen.py
14. red for agents that need no approval, and amber only for requests to the person and for silence: here
15. the terminal's own background: tests/unit/cli/textual_ui/test_palettes.py
16. every letter typed, whatever has the focus: tests/unit/cli/textual_ui/test_keys.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from rich.segment import Segment

from tests.architecture.project import ROOT
from tests.unit.cli.textual_ui import scenes
from tests.unit.cli.textual_ui.scenes import Play, Scene, made_app, played
from vibe.cli.textual_ui.app import VibeApp

SMALL, USUAL, LARGE = (80, 24), (120, 36), (200, 60)
MAIN: dict[str, Play] = {
    "talk": scenes.talk_unfolded,
    "notes": scenes.notes,
    "permission": scenes.approval_of_edit,
    "question": scenes.question,
    "proposal": scenes.proposal,
    "running": scenes.running,
    "failed": scenes.failed,
    "review": scenes.review,
    "start": scenes.start,
}
MUST_SHOW = 16
MEANINGS = {1, 2, 3, 6}
"""Red, green, yellow and cyan in a terminal's palette."""


def drawn(app: VibeApp) -> Iterator[Segment]:
    """Yield the segments of the whole screen that a terminal is given."""
    for strip in app.screen._compositor.render_strips():  # pyright: ignore[reportPrivateUsage]
        yield from (segment for segment in strip if segment.text.strip())


def seen(play: Play, folder: Path, size: tuple[int, int], theme: str = "textual-dark") -> list[Segment]:
    app = made_app(theme, folder)

    async def taken() -> list[Segment]:
        async with played(Scene(play, size, theme), app, folder):
            return list(drawn(app))

    return anyio.run(taken)


def rows_with(segments: list[Segment]) -> str:
    return " ".join(segment.text for segment in segments)


def test_each_of_the_list_is_held_by_tests_that_are_there() -> None:
    told = __doc__ or ""
    files: list[str] = re.findall(r"tests/\S+\.py", told)

    assert len(re.findall(r"^\d+\. .*(?:: here|: tests/.*)$", told, re.MULTILINE)) == MUST_SHOW
    assert [name for name in files if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("name", MAIN)
def test_with_16_colours_there_is_no_ground_nothing_dim_and_no_colour_but_the_meanings(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    segments = seen(MAIN[name], tmp_path, USUAL, "16-colours")

    wrong = [
        (text, f"{style}")
        for text, style, _ in segments
        if style is not None
        and not style.reverse  # the cursor
        and (
            style.dim
            or (style.bgcolor is not None and not style.bgcolor.is_default)
            or (style.color is not None and not style.color.is_default and style.color.number not in MEANINGS)
        )
    ]
    assert wrong == []


@pytest.mark.parametrize("name", MAIN)
def test_without_colours_there_are_none_and_the_words_are_the_same(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = seen(MAIN[name], tmp_path / "a", USUAL)
    monkeypatch.setenv("NO_COLOR", "1")
    plain = seen(MAIN[name], tmp_path / "b", USUAL)

    assert [f"{style}" for _, style, _ in plain if style is not None and (style.color or style.bgcolor)] == []
    assert rows_with(plain).split() == rows_with(coloured).split()


@pytest.mark.parametrize("size", [SMALL, USUAL, LARGE])
def test_what_approves_everything_is_said_in_red(
    size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    segments = seen(scenes.unasked, tmp_path, size, "16-colours")

    (said,) = [segment for segment in segments if "AUTO-APPROVES EVERYTHING" in segment.text]
    assert said.style is not None
    assert said.style.color is not None
    assert (said.style.color.number, said.style.bold) == (1, True)
    amber = [text for text, style, _ in segments if style is not None and style.color and style.color.number == 3]
    assert {*amber} <= {"slugify"}, "nobody waits for the person, and nothing is silent; a name in code apart"
