"""The screen looks as its pictures say; those in docs/images are what people read about it."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests.architecture.project import ROOT
from tests.fakes.snapshots import ACCEPT, Snapshots, picture_of
from tests.unit.cli.textual_ui import scenes
from tests.unit.cli.textual_ui.scenes import Scene, made_app, played

IN_DOCS = ROOT / "docs" / "images"
HERE = Path(__file__).parent / "pictures"
LIGHT = "textual-light"
SMALL, USUAL, LARGE = (80, 24), (120, 36), (200, 60)

DOCS = {
    "chat": Scene(scenes.talk, USUAL),
    "permission": Scene(scenes.approval, SMALL),
    "proposed-plan": Scene(scenes.proposal, USUAL),
    "running-plan": Scene(scenes.running, USUAL),
}
OTHERS = {
    "chat-empty-small": Scene(scenes.empty, SMALL),
    "chat-light-small": Scene(scenes.talk, SMALL, LIGHT),
    "chat-unfolded-large": Scene(scenes.talk_unfolded, LARGE),
    "chat-notes-small": Scene(scenes.notes, SMALL),
    "chat-without-colours-small": Scene(scenes.talk, SMALL, is_coloured=False),
    "completion-small": Scene(scenes.completion, SMALL),
    "completion-file-light-small": Scene(scenes.completion_of_file, SMALL, LIGHT),
    "decision-usual": Scene(scenes.decision, USUAL),
    "palette-small": Scene(scenes.palette, SMALL),
    "permission-edit-light-usual": Scene(scenes.approval_of_edit, USUAL, LIGHT),
    "proposed-plan-light-small": Scene(scenes.proposal, SMALL, LIGHT),
    "proposed-step-large": Scene(scenes.proposal_step, LARGE),
    "question-small": Scene(scenes.question, SMALL),
    "running-plan-chosen-light-small": Scene(scenes.running_chosen, SMALL, LIGHT),
    "running-plan-large": Scene(scenes.running, LARGE),
    "sessions-usual": Scene(scenes.sessions, USUAL),
    "setup-key-light-small": Scene(scenes.key, SMALL, LIGHT),
    "setup-providers-small": Scene(scenes.providers, SMALL),
    "setup-welcome-usual": Scene(scenes.setup, USUAL),
    "transcript-small": Scene(scenes.transcript, SMALL),
    "transcript-light-usual": Scene(scenes.transcript, USUAL, LIGHT),
}
PICTURES = {IN_DOCS / f"{name}.svg": scene for name, scene in DOCS.items()} | {
    HERE / f"{name}.svg": scene for name, scene in OTHERS.items()
}


@pytest.fixture
def snapshots(tmp_path: Path, request: pytest.FixtureRequest) -> Snapshots:
    return Snapshots(rejected=tmp_path, accept=bool(request.config.getoption(ACCEPT)))


@pytest.mark.parametrize(("known", "scene"), PICTURES.items(), ids=[path.stem for path in PICTURES])
def test_the_screen_looks_as_its_picture(
    known: Path, scene: Scene, snapshots: Snapshots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if scene.is_coloured:
        monkeypatch.delenv("NO_COLOR", raising=False)
    else:
        monkeypatch.setenv("NO_COLOR", "1")
    app = made_app(scene.theme, tmp_path)

    async def taken() -> str:
        async with played(scene, app, tmp_path):
            return picture_of(app)

    snapshots.check(anyio.run(taken), known)


def test_every_picture_is_of_a_scene(snapshots: Snapshots) -> None:
    if snapshots.accept:
        pytest.skip("they are being taken")
    assert {*HERE.glob("*.svg"), *IN_DOCS.glob("*.svg")} == {*PICTURES}


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
