"""A home whose models are served over HTTP, and folders for conversations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest
from msgspec.structs import replace

from ipc.events import Event
from ipc.sink import MemorySink
from tests.fakes.model_server import ModelServer
from tests.integration.core.session.repository import ENVIRON, repository
from vibe.app.conversation.opening import Opening, Seat
from vibe.app.engine.host import Host
from vibe.core.tools.permissions import ApprovalMode
from vibe.core.tools.ports import Approver

CONFIG = """active_model = "first"
enable_update_checks = false
[[providers]]
name = "served"
api_base = "{api_base}"
api_key_env_var = "SERVED_KEY"
backend = "generic"
[[models]]
name = "m1"
alias = "first"
provider = "served"
input_price = 1.0
output_price = 2.0
[[models]]
name = "m2"
alias = "second"
provider = "served"
input_price = 1.0
output_price = 2.0
"""

Kind = TypeVar("Kind", bound=Event)


@dataclass(kw_only=True)
class Rig:
    """One process's worth of surroundings: its host, the model server and a folder to work in."""

    server: ModelServer
    host: Host
    folder: Path
    events: MemorySink = field(default_factory=MemorySink)

    def opening(self, **changes: Any) -> Opening:
        """Return an opening in which everything is approved, unless ``changes`` say otherwise."""
        return replace(Opening(workdir=self.folder, approvals=ApprovalMode.ALL), **changes)

    @property
    def seat(self) -> Seat:
        """Return a seat with nobody to ask, whose events are kept."""
        return Seat(listeners=[self.events])

    def seat_of(self, approver: Approver) -> Seat:
        """Return a seat with somebody who is asked."""
        return Seat(listeners=[self.events], approver=approver)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds."""
        with anyio.fail_after(60):
            while not condition():  # noqa: ASYNC110  no event announces it
                await anyio.sleep(0.005)

    def seen(self, kind: type[Kind]) -> list[Kind]:
        """Return the events of a kind so far."""
        return [event for event in self.events.events if isinstance(event, kind)]


@pytest.fixture
def rig(tmp_path: Path, vibe_home: Path) -> Iterator[Rig]:
    with ModelServer() as server:
        (vibe_home / "config.toml").write_text(CONFIG.format(api_base=server.api_base))
        environ = {**ENVIRON, "SERVED_KEY": "k", "HOME": str(tmp_path)}
        folder = repository(tmp_path / "work", {"a.txt": "one\n"})
        yield Rig(server=server, host=Host(home=vibe_home, environ=environ), folder=folder)
