"""A program's surroundings: a home whose model is served over HTTP, and a folder to work in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import pytest

from tests.fakes.model_server import ModelServer, Reply, ServedCall
from tests.integration.app.conversation.conftest import CONFIG
from tests.integration.core.session.repository import ENVIRON, repository
from vibe.sdk import Answer, Home, Run, Session, query
from vibe.sdk.options import QueryOptions, SessionOptions


@dataclass(frozen=True, kw_only=True)
class Program:
    """The home and folder with which a program uses vibe. ``server`` gives scripted answers."""

    server: ModelServer
    home: Home
    folder: Path

    def says(self, *replies: Reply | str) -> None:
        """Script the model's next answers, in order. The server ends each word with a blank."""
        self.server.enqueue(*(Reply(text=one) if isinstance(one, str) else one for one in replies))

    def query(self, prompt: str, **options: Unpack[QueryOptions]) -> Run[Answer[None]]:
        return query(prompt, **{"home": self.home, "workdir": self.folder, **options})

    def session(self, **options: Unpack[SessionOptions]) -> Session:
        return Session(**{"home": self.home, "workdir": self.folder, **options})

    def messages(self) -> list[dict[str, Any]]:
        """Return the messages of the last request."""
        return self.server.requests[-1].body["messages"]


def calls(name: str, arguments: str = "{}") -> Reply:
    """Return an answer that calls a tool."""
    return Reply(tool_calls=(ServedCall(name=name, arguments=arguments),))


STOPS_MIDWAY = Reply(text="one two three four", silent_after=2)


@pytest.fixture
def program(tmp_path: Path, vibe_home: Path) -> Iterator[Program]:
    with ModelServer() as server:
        (vibe_home / "config.toml").write_text(CONFIG.format(api_base=server.api_base))
        environ = {**ENVIRON, "SERVED_KEY": "k", "HOME": str(tmp_path)}
        folder = repository(tmp_path / "work", {"a.txt": "one\n"})
        yield Program(server=server, home=Home(folder=vibe_home, environ=environ), folder=folder)
