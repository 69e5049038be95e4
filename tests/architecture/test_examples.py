"""Every example plan is valid, and what it needs is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.plan.loader import read_plan_file
from tests.architecture.project import ROOT

EXAMPLES = sorted((ROOT / "plans-examples").glob("*.json"))


def test_there_are_examples() -> None:
    assert [path.name for path in EXAMPLES if path.name == "quickstart.json"] == ["quickstart.json"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_loads(path: Path) -> None:
    assert read_plan_file(path).plan.goal


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_what_a_sample_plan_needs_is_there(path: Path) -> None:
    sample = read_plan_file(path).plan.sample
    needed = [sample.project, sample.replay] if sample else []

    assert [name for name in needed if name and not (path.parent / name).exists()] == []
