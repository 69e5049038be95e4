"""The configuration reference matches the models."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from typing import cast

import pytest
from pydantic import BaseModel

from tests.architecture.project import ROOT
from vibe.core.config.models import (
    IpcConfig,
    McpServerConfig,
    ModelConfig,
    PlannerConfig,
    ProviderConfig,
    ToolTable,
    VibeConfig,
)

SCRIPT = runpy.run_path(str(ROOT / "scripts" / "gen-config-reference"))


def test_the_reference_is_current() -> None:
    reference = cast("Callable[[], str]", SCRIPT["reference"])()
    current = (ROOT / "docs" / "reference" / "config.md").read_text(encoding="utf-8")

    assert current == reference, "run scripts/gen-config-reference"


@pytest.mark.parametrize(
    "model", [VibeConfig, ProviderConfig, ModelConfig, McpServerConfig, PlannerConfig, IpcConfig, ToolTable]
)
def test_every_field_is_described(model: type[BaseModel]) -> None:
    described = cast("Callable[[type[BaseModel]], dict[str, str]]", SCRIPT["described"])(model)

    assert set(described) == set(model.model_fields)
