"""A workspace, a home with secrets, and each sandbox that works on this machine."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.fakes.programs import missing
from vibe.shell.process.confined import shell_command
from vibe.shell.process.runner import CommandResult, child_environ, run_command
from vibe.shell.sandbox.confinement import Confinement, Place
from vibe.shell.sandbox.settings import Network, SandboxConfig


@dataclass
class Cell:
    """Runs shell lines confined in ``root``."""

    base: Path
    backend: str
    settings: SandboxConfig = field(default_factory=SandboxConfig)
    outputs: Path | None = None
    folder: Path | None = None
    """Where it runs; None: in ``root``."""
    aside: str = ""
    """What was put back after the last line."""

    def __post_init__(self) -> None:
        self.environ = {
            **{name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ},
            "HOME": str(self.base / "home"),
            "MISTRAL_API_KEY": "SECRET",
            "SSH_AUTH_SOCK": str(self.base / "home" / "agent.sock"),
            "TMPDIR": str(self.base),
        }
        self.configure(self.settings)

    @property
    def root(self) -> Path:
        return self.base / "work"

    def configure(self, settings: SandboxConfig) -> None:
        self.settings = settings
        self.confinement = Confinement(settings, self.environ, self.base / "home" / ".vibe", backends=[self.backend])

    async def run(
        self, line: str, seconds: float = 60, network: Network | None = None, *, read_only: bool = False
    ) -> CommandResult:
        readable = () if self.outputs is None else (self.outputs,)
        place = Place(roots=(self.folder or self.root,), readable=readable, network=network, read_only=read_only)
        shell = await shell_command(line, child_environ(self.environ), self.confinement, place)
        assert shell.confined_by is not None
        try:
            result = await run_command(
                shell.command.argv, cwd=place.roots[0], environ=shell.command.environ, timeout=seconds
            )
        finally:
            self.aside = await shell.put_aside()
        return shell.annotated(result)


def cell_of(backend: str, folder: Path) -> Cell:
    """A confined place, with secrets around it."""
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
    """By each of both."""
    return cell_of(str(request.param), tmp_path)


@pytest.fixture
def bubblewrap(tmp_path: Path) -> Cell:
    """By the one that has namespaces, and so can keep a program to reading."""
    made = cell_of("bubblewrap", tmp_path)
    assert made.confinement.can_read_only()
    return made


@pytest.fixture
def landlock(tmp_path: Path) -> Cell:
    """By the one that has none."""
    made = cell_of("landlock", tmp_path)
    assert not made.confinement.can_read_only()
    return made
