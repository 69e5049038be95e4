"""Fixtures of the configuration's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.core.config.surroundings import Surroundings


@pytest.fixture
def surroundings(tmp_path: Path) -> Surroundings:
    made = Surroundings(tmp_path)
    made.project.mkdir(parents=True)
    return made
