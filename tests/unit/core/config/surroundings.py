"""A user's home and a project on disk, from which configurations are loaded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vibe.core.config.layers import InvalidConfigError
from vibe.core.config.loader import ConfigRequest, GivenSettings, LoadedConfig, load_config
from vibe.core.config.toml_source import read_toml
from vibe.system.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Folders below ``root``: ``home`` is ``~``, and ``project`` is a git repository in it."""

    root: Path

    @property
    def user_home(self) -> Path:
        return self.root / "me"

    @property
    def home(self) -> Path:
        return self.user_home / ".vibe"

    @property
    def project(self) -> Path:
        return self.user_home / "code" / "project"

    def user_file(self, text: str, name: str = "config.toml") -> Path:
        return _written(self.home / name, text)

    def project_file(self, text: str, name: str = "config.toml") -> Path:
        (self.project / ".git").mkdir(parents=True, exist_ok=True)
        return _written(self.project / ".vibe" / name, text)

    def load(
        self,
        *,
        environ: dict[str, str] | None = None,
        flags: dict[str, Any] | None = None,
        given: GivenSettings | None = None,
        workdir: Path | None = None,
        trust: bool = True,
        agent: Path | None = None,
    ) -> LoadedConfig:
        return load_config(
            ConfigRequest(
                home=self.home,
                workdir=workdir or self.project,
                environ={"HOME": str(self.user_home), **(environ or {})},
                flags=flags or {},
                given=given,
                trust_workdir=trust,
                agent=read_toml(agent, agent.name) if agent else None,
            )
        )

    def refusal(self, *, environ: dict[str, str] | None = None, flags: dict[str, Any] | None = None) -> list[str]:
        """Return the sentences of the error with which loading fails."""
        try:
            self.load(environ=environ, flags=flags)
        except InvalidConfigError as error:
            return [str(problem) for problem in error.problems]
        except ConfigError as error:
            return [str(error)]
        raise AssertionError("the configuration was accepted")


def _written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return path
