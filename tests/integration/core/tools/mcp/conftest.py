"""The MCP servers from npm, installed once."""

from __future__ import annotations

import pytest

from tests.fakes.npm_peers import install_peers


@pytest.fixture(scope="session")
def peers() -> None:
    """Install the packages if they are missing."""
    install_peers()
