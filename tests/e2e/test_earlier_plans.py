"""Plan folders of an earlier version, whose journals held other records: listed, refused in a sentence, and not changed.

Covers ``planner.store``.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from planner.store.errors import BrokenPlanError
from planner.store.folder import list_plans
from planner.store.store import PlanStore
from tests.e2e.conftest import VibeCommand

EARLIER = Path(__file__).parents[1] / "integration" / "planner" / "earlier_plans"
NAMES = ("ended", "killed", "paused", "revised")
SAYS = "is not a fact this version knows"
ADVISES = "use the vibe that wrote it, restore the file from a backup or run the plan again"


@pytest.fixture
def home(vibe: VibeCommand) -> Path:
    """Fill the home with a copy of each, in a workspace that exists."""
    for name in NAMES:
        folder = vibe.home / "plans" / name
        shutil.copytree(EARLIER / name, folder)
        settings = json.loads((folder / "run.json").read_text())
        (folder / "run.json").write_text(json.dumps(settings | {"workspace": str(vibe.workdir)}))
    return vibe.home


def digests(home: Path) -> dict[Path, str]:
    return {
        path: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((home / "plans").rglob("*"))
        if path.is_file() and path.name != "lock"
    }


def test_plans_of_an_earlier_version_are_listed_and_never_changed(home: Path, vibe: VibeCommand) -> None:
    before = digests(home)
    assert {row["plan_id"] for row in vibe("plan", "list", "--output", "json").document} == set(NAMES)
    plans = {plan.plan_id: plan for plan in list_plans(home)}

    assert set(plans) == set(NAMES)
    assert {name: plan.status for name, plan in plans.items() if plan.problem is None} == {
        "ended": "completed",
        "paused": "paused",
        "revised": "paused",
    }
    assert SAYS in str(plans["killed"].problem)
    for name in NAMES:
        with pytest.raises(BrokenPlanError, match=SAYS):
            PlanStore.open(home, name)
    assert digests(home) == before


COMMANDS: Sequence[tuple[str, ...]] = (
    ("plan", "resume"),
    ("plan", "status"),
    ("plan", "show"),
    ("plan", "report"),
    ("plan", "cancel"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_whatever_needs_their_journal_says_that_another_vibe_can_read_it(
    home: Path, command: tuple[str, ...], vibe: VibeCommand
) -> None:
    before = digests(home)
    for name in NAMES:
        done = vibe(*command, name)
        assert (done.code, done.err.count("\n")) == (3, 1), done.err
        assert SAYS in done.err
        assert ADVISES in done.err
    assert digests(home) == before
    assert vibe("plan", "list").out.count("unreadable") == 1
