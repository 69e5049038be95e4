"""An editor with its agent, and the script of the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.conftest import VIBE, VibeCommand

if TYPE_CHECKING:
    from tests.fakes.acp_client import Editing, ScriptedEditor

VIBE_ACP = VIBE.with_name("vibe-acp")


@dataclass
class Scene:
    """An editor with its agent for the tests of a module. Every session reads the model's script anew."""

    vibe: VibeCommand
    editing: Editing

    @property
    def editor(self) -> ScriptedEditor:
        return self.editing.editor

    def script(self, *turns: dict[str, Any], **agents: list[dict[str, Any]]) -> None:
        played = {"main": {"turns": list(turns)}, **{name: {"turns": given} for name, given in agents.items()}}
        self.vibe.replay({"agents": played})


def begun(folder: Path, **can: bool) -> Iterator[Scene]:
    from tests.fakes.acp_client import editing  # noqa: PLC0415  its library is slow to load, and few tests need it

    (folder / "work").mkdir()
    vibe = VibeCommand(home=folder / "home", workdir=folder / "work", environ={"TMPDIR": str(folder)})
    vibe.home.mkdir()
    with editing([str(VIBE_ACP)], vibe.variables(), vibe.workdir, **can) as edited:
        yield Scene(vibe, edited)


def tool(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def edit(old: str, new: str, path: str = "notes.txt") -> dict[str, Any]:
    blocks = f"<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE"
    return tool("search_replace", file_path=path, content=blocks)


def refusal(work: Callable[..., Any], *args: Any, **more: Any) -> str:
    from acp import RequestError  # noqa: PLC0415  slow to load, and few tests need it

    with pytest.raises(RequestError) as caught:
        work(*args, **more)
    return f"{caught.value.code} {caught.value}"
