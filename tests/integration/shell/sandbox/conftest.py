"""A workspace, a home with secrets, and each sandbox that works on this machine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.fakes.programs import missing
from tests.integration.shell.sandbox.cell import Cell


def cell_of(backend: str, folder: Path) -> Cell:
    """Make a confined place, with secrets around it."""
    if not sys.platform.startswith("linux"):
        pytest.skip("there are sandboxes for Linux only")
    for name in ("work", "home/.ssh", "home/.vibe", "home/.config/gcloud"):
        (folder / name).mkdir(parents=True)
    for secret in (".ssh/id_ed25519", ".netrc", ".npmrc", ".vibe/config.toml", ".config/gcloud/creds.json"):
        (folder / "home" / secret).write_text("SECRET")
    (folder / "home" / ".gitconfig").write_text("[user]\n\tname = me\n\temail = me@example.com\n")
    made = Cell(folder, backend)
    choice = made.confinement.choice()
    if choice.sandbox is None:
        missing(choice.reason)
    return made


@pytest.fixture(params=["bubblewrap", "landlock"])
def cell(request: pytest.FixtureRequest, tmp_path: Path) -> Cell:
    """Make a confined place for each sandbox."""
    return cell_of(str(request.param), tmp_path)


@pytest.fixture
def bubblewrap(tmp_path: Path) -> Cell:
    """Make a place confined by bubblewrap, which has namespaces and so can enforce reading only."""
    made = cell_of("bubblewrap", tmp_path)
    assert made.confinement.can_read_only()
    return made


@pytest.fixture
def landlock(tmp_path: Path) -> Cell:
    """Make a place confined by Landlock, which has no namespaces."""
    made = cell_of("landlock", tmp_path)
    assert not made.confinement.can_read_only()
    return made
