"""A server of ``vibe mcp serve`` with a client, and the script of its model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.conftest import VIBE, VibeCommand
from tests.fakes.mcp_client import ServedVibe, connected


@dataclass
class Scene:
    """A server for the tests of a module. Every call reads the model's script anew."""

    vibe: VibeCommand
    served: ServedVibe

    def script(self, *turns: dict[str, Any], **agents: list[dict[str, Any]]) -> None:
        played = {"main": {"turns": list(turns)}, **{name: {"turns": given} for name, given in agents.items()}}
        self.vibe.replay({"agents": played})


def scene(folder: Path, *flags: str, can_ask: bool = False) -> Iterator[Scene]:
    from mcp import StdioServerParameters  # noqa: PLC0415  slow to load, and few tests need it

    (folder / "work").mkdir()
    vibe = VibeCommand(home=folder / "home", workdir=folder / "work", environ={"TMPDIR": str(folder)})
    vibe.home.mkdir()
    program = StdioServerParameters(
        command=str(VIBE), args=["mcp", "serve", *flags], env=vibe.variables(), cwd=str(vibe.workdir)
    )
    with connected(program, can_ask=can_ask) as served:
        yield Scene(vibe, served)


def bash(*commands: str, **more: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": "bash", "arguments": {"command": line, **more}} for line in commands]}


def tool(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def text(result: Any) -> str:
    return result.content[0].text
