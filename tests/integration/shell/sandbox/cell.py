"""A confined place. Test programs load this module, so it does not import pytest."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

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
    """The folder to run in. If None, ``root``."""
    aside: str = ""
    """The report on the settings that were put aside after the last line."""

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
