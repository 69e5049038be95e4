"""SessionFolder: where one conversation is kept: ``meta.json``, ``messages.jsonl`` and whole outputs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vibe.core.errors import EnvironmentFailure


@dataclass(frozen=True, slots=True)
class SessionFolder:
    """One session's folder; other users can't read it."""

    path: Path

    @classmethod
    def create(cls, sessions: Path, session_id: str, meta: Mapping[str, Any]) -> SessionFolder:
        """Make the folder and write what the session is about.

        Raises:
            EnvironmentFailure: it can't be written.
        """
        folder = cls(sessions / session_id)
        try:
            folder.path.mkdir(parents=True, mode=0o700)
            folder.write_meta(meta)
        except OSError as error:
            problem = f"the session folder {folder.path} can't be written ({error.strerror})"
            raise EnvironmentFailure(f"{problem}: set VIBE_HOME to a writable folder") from error
        return folder

    @property
    def transcript(self) -> Path:
        """The conversation, one message a line."""
        return self.path / "messages.jsonl"

    @property
    def outputs(self) -> Path:
        """Tool outputs that were too long for the conversation."""
        return self.path / "outputs"

    def write_meta(self, meta: Mapping[str, Any]) -> None:
        """Replace ``meta.json`` as a whole."""
        draft = self.path / "meta.json.new"
        draft.write_text(json.dumps(dict(meta), indent=2) + "\n", encoding="utf-8")
        os.replace(draft, self.path / "meta.json")  # noqa: PTH105  atomic, and the same on every system
