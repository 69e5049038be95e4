"""Editors for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.acp.acp_scene import Scene, begun


@pytest.fixture(scope="session", name="shared")
def shared_scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    yield from begun(tmp_path_factory.mktemp("shared"))


@pytest.fixture
def scene(shared: Scene) -> Iterator[Scene]:
    """Return an editor that has files and terminals."""
    yield shared
    assert not shared.editor.answers


@pytest.fixture
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Start the same with an agent process of its own."""
    yield from begun(tmp_path_factory.mktemp("alone"))


@pytest.fixture
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Start an editor without files and terminals."""
    yield from begun(tmp_path_factory.mktemp("bare"), files=False, terminal=False)
