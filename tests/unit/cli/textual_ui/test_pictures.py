"""The screen matches its pictures. Those in docs/images illustrate the documentation."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests.architecture.project import ROOT
from tests.fakes.snapshots import ACCEPT, Snapshots, moving, picture_of, rows_of
from tests.unit.cli.textual_ui import scenes
from tests.unit.cli.textual_ui.scenes import Scene, made_app, played
from vibe.cli.textual_ui.panels.panel_frame import LineView

IN_DOCS = ROOT / "docs" / "images"
HERE = Path(__file__).parent / "pictures"
WORDS = HERE / "words"
"""The text of the main screens, for reviewers of changed words."""
DARK, LIGHT = "textual-dark", "textual-light"
SIZES = {"small": (80, 24), "usual": (120, 36), "large": (200, 60)}
TINY = (20, 5)
MAIN = {
    "chat": scenes.talk,
    "completion": scenes.completion,
    "decision": scenes.decision,
    "fleet": scenes.fleet,
    "fleet-asking": scenes.fleet_asking,
    "overview": scenes.overview,
    "failed-step": scenes.failed,
    "permission": scenes.approval,
    "permission-edit": scenes.approval_of_edit,
    "proposed-plan": scenes.proposal,
    "question": scenes.question,
    "running-plan": scenes.running,
    "runs": scenes.runs,
    "sessions": scenes.sessions,
    "setup": scenes.setup,
    "transcript": scenes.transcript,
}
"""The main screens: each is played once, and shown in all sizes and in dark and light colours."""
MOVING, MOVING_PICTURE = (110, 28), "plan-from-start-to-end.svg"
DOCS = {
    "chat-usual",
    "permission-small",
    "proposed-plan-usual",
    "running-plan-usual",
    "runs-usual",
    "sessions-small",
    "setup-small",
    "transcript-usual",
}
"""The pictures in the documentation, where they are named after the screen."""
OTHERS = {
    "chat-empty-small": Scene(scenes.empty, SIZES["small"]),
    "start-small": Scene(scenes.start, SIZES["small"]),
    "start-usual": Scene(scenes.start, SIZES["usual"]),
    "start-light-large": Scene(scenes.start, SIZES["large"], LIGHT),
    "chat-unasked-small": Scene(scenes.unasked, SIZES["small"]),
    "chat-notes-small": Scene(scenes.notes, SIZES["small"]),
    "chat-unfolded-large": Scene(scenes.talk_unfolded, SIZES["large"]),
    "chat-16-colours-large": Scene(scenes.talk_unfolded, SIZES["large"], "16-colours"),
    "chat-without-colours-small": Scene(scenes.talk, SIZES["small"], is_coloured=False),
    "failed-step-16-colours-usual": Scene(scenes.failed, SIZES["usual"], "16-colours"),
    "fleet-asking-16-colours-small": Scene(scenes.fleet_asking, SIZES["small"], "16-colours"),
    "proposed-plan-16-colours-usual": Scene(scenes.proposal, SIZES["usual"], "16-colours"),
    "permission-edit-tiny": Scene(scenes.approval_of_edit, TINY),
    "question-tiny": Scene(scenes.question, TINY),
    "question-16-colours-small": Scene(scenes.question, SIZES["small"], "16-colours"),
    "running-plan-tiny": Scene(scenes.running, TINY, is_coloured=False),
    "completion-file-light-small": Scene(scenes.completion_of_file, SIZES["small"], LIGHT),
    "leaving-usual": Scene(scenes.leaving, SIZES["usual"]),
    "paused-plan-small": Scene(scenes.paused, SIZES["small"]),
    "help-large": Scene(scenes.topics, SIZES["large"]),
    "help-small": Scene(scenes.topics, SIZES["small"], LIGHT),
    "palette-large": Scene(scenes.palette, SIZES["large"]),
    "palette-light-usual": Scene(scenes.palette, SIZES["usual"], LIGHT),
    "palette-small": Scene(scenes.palette, SIZES["small"]),
    "planning-small": Scene(scenes.planning, SIZES["small"]),
    "planning-light-usual": Scene(scenes.planning, SIZES["usual"], LIGHT),
    "planned-usual": Scene(scenes.planned, SIZES["usual"]),
    "not-planned-small": Scene(scenes.not_planned, SIZES["small"]),
    "proposed-step-large": Scene(scenes.proposal_step, SIZES["large"]),
    "review-large": Scene(scenes.review, SIZES["large"]),
    "review-light-small": Scene(scenes.review, SIZES["small"], LIGHT),
    "review-usual": Scene(scenes.review, SIZES["usual"]),
    "rewind-usual": Scene(scenes.rewind, SIZES["usual"]),
    "rewind-without-colours-small": Scene(scenes.rewind, SIZES["small"], is_coloured=False),
    "runs-found-small": Scene(scenes.runs_found, SIZES["small"]),
    "no-runs-small": Scene(scenes.no_runs, SIZES["small"], LIGHT),
    "theme-usual": Scene(scenes.themes, SIZES["usual"], LIGHT),
    "setup-key-light-small": Scene(scenes.key, SIZES["small"], LIGHT),
    "setup-providers-small": Scene(scenes.providers, SIZES["small"]),
}


def kept_at(name: str) -> Path:
    """Return the path of a picture."""
    screen, _, _ = name.rpartition("-")
    return IN_DOCS / f"{screen}.svg" if name in DOCS else HERE / f"{name}.svg"


@pytest.fixture
def snapshots(tmp_path: Path, request: pytest.FixtureRequest) -> Snapshots:
    return Snapshots(rejected=tmp_path, accept=bool(request.config.getoption(ACCEPT)))


@pytest.mark.parametrize("name", MAIN)
def test_a_main_screen_looks_as_its_pictures(
    name: str, snapshots: Snapshots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    app = made_app(DARK, tmp_path)

    async def taken() -> tuple[dict[str, str], dict[str, list[str]]]:
        pictures: dict[str, str] = {}
        async with played(Scene(MAIN[name], SIZES["usual"]), app, tmp_path) as on:
            rows: dict[str, list[str]] = {}
            for size, cells in SIZES.items():
                await on.look(cells, DARK)
                pictures[size], rows[size] = picture_of(app), rows_of(app)
            for size, cells in reversed(SIZES.items()):  # changing colours takes longer than changing the size
                await on.look(cells, LIGHT)
                assert rows_of(app) == rows[size], "other colours move no words"
                if size == "usual":
                    pictures["usual-light"] = picture_of(app)
        return pictures, rows

    pictures, rows = anyio.run(taken)
    snapshots.check("".join(f"{row.strip()}\n" for row in rows["usual"] if row.strip()), WORDS / f"{name}.txt")
    for look, picture in pictures.items():
        snapshots.check(picture, kept_at(f"{name}-{look}"))


@pytest.mark.parametrize("name", OTHERS)
def test_the_screen_looks_as_its_picture(
    name: str, snapshots: Snapshots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = OTHERS[name]
    if scene.is_coloured:
        monkeypatch.delenv("NO_COLOR", raising=False)
    else:
        monkeypatch.setenv("NO_COLOR", "1")
    app = made_app(scene.theme, tmp_path)

    async def taken() -> str:
        async with played(scene, app, tmp_path):
            return picture_of(app)

    snapshots.check(anyio.run(taken), kept_at(name))


def test_the_picture_of_a_plan_that_runs_moves(
    snapshots: Snapshots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    clock = [scenes.NOW]
    app = made_app(DARK, tmp_path, lambda: clock[0])

    async def taken() -> list[tuple[str, float]]:
        pictures: list[tuple[str, float]] = []
        async with played(Scene(scenes.proposal, MOVING), app, tmp_path) as on:
            pictures.append((picture_of(app), 4.0))
            await on.press("a")
            for seconds, events in scenes.WATCHED:
                clock[0] = scenes.STARTED + seconds
                await on.see(*events)
                await on.rest()
                pictures.append((picture_of(app), 1.5))
        return [*pictures[:-1], (pictures[-1][0], 5.0)]

    snapshots.check(moving(anyio.run(taken)), IN_DOCS / MOVING_PICTURE)


def test_a_window_that_grows_leaves_no_scrollbar_where_all_is_in_sight(tmp_path: Path) -> None:
    app = made_app(DARK, tmp_path)

    async def seen() -> list[bool]:
        bars: list[bool] = []
        async with played(Scene(scenes.proposal, SIZES["small"]), app, tmp_path) as on:
            for cells in SIZES.values():
                await on.look(cells, DARK)
                bars.append(app.screen.query_one("PanelFrame > LineView", LineView).show_vertical_scrollbar)
        return bars

    assert anyio.run(seen) == [False, False, False]


def test_every_picture_is_of_a_scene(snapshots: Snapshots) -> None:
    if snapshots.accept:
        pytest.skip("they are being taken")
    assert {path.stem for path in WORDS.iterdir()} == set(MAIN)
    main = {kept_at(f"{name}-{look}") for name in MAIN for look in (*SIZES, "usual-light")}
    assert {*HERE.glob("*.svg"), *IN_DOCS.glob("*.svg")} == main | {*map(kept_at, OTHERS)} | {IN_DOCS / MOVING_PICTURE}


def test_a_picture_that_differs_is_kept_beside_and_named(tmp_path: Path) -> None:
    known, rejected = tmp_path / "known" / "one.svg", tmp_path / "rejected"
    rejected.mkdir()
    Snapshots(rejected=rejected, accept=True).check("a\nb\n", known)
    snapshots = Snapshots(rejected=rejected, accept=False)

    snapshots.check("a\nb\n", known)
    with pytest.raises(AssertionError, match=r"first in line 2:\n- b\n\+ c\n.*--accept-snapshots"):
        snapshots.check("a\nc\n", known)
    with pytest.raises(AssertionError, match=r"line 3:\n- \(its end\)\n\+ c"):
        snapshots.check("a\nb\nc\n", known)
    assert (rejected / "one.svg").read_text() == "a\nb\nc\n"
