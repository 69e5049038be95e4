"""The laboratory in which lines are tried, built once."""

from __future__ import annotations

import pytest

from tests.unit.shell.policy import shell_lab
from tests.unit.shell.policy.shell_lab import ShellLab


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> ShellLab:
    """Build the laboratory as it is before a line. Tests copy it."""
    return shell_lab.build(tmp_path_factory.mktemp("lab") / "template")
