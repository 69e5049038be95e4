"""The laboratory that lines are tried in, built once."""

from __future__ import annotations

import pytest

from tests.unit.shell.policy import shell_lab
from tests.unit.shell.policy.shell_lab import ShellLab


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> ShellLab:
    """As it is before a line; a test copies it."""
    return shell_lab.build(tmp_path_factory.mktemp("lab") / "template")
