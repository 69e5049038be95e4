from __future__ import annotations

from typing import Any

from anyio import Event, create_task_group, fail_after
from anyio.lowlevel import checkpoint
from starlette.types import Message, Receive, Send

from vibe.mcp_server.protocol import TokenGuard


async def never() -> Message:
    await Event().wait()
    return {}


async def send(_: Message) -> None:
    await checkpoint()


def asked(session: str, method: str = "POST") -> dict[str, Any]:
    named = [(b"mcp-session-id", session.encode())] if session else []
    return {"type": "http", "method": method, "headers": [(b"authorization", b"Bearer t"), *named]}


async def test_a_session_whose_client_asks_nothing_for_long_is_left_and_one_that_waits_is_not() -> None:
    held, left = Event(), {"waits": Event(), "vanished": Event()}

    async def application(scope: Message, receive: Receive, send: Send) -> None:  # noqa: ARG001  the interface
        if (b"mcp-session-id", b"waits") in scope["headers"]:
            await held.wait()
        await checkpoint()

    def leave(session: str) -> None:
        assert not left[session].is_set()
        left[session].set()

    guard = TokenGuard(application, "t", leave, idle_seconds=0.2)
    with fail_after(60):
        async with create_task_group() as group:
            group.start_soon(guard.watch)
            group.start_soon(guard, asked("waits"), never, send)
            await guard(asked("vanished"), never, send)
            assert not left["vanished"].is_set()
            await left["vanished"].wait()
            assert not left["waits"].is_set()
            held.set()
            await left["waits"].wait()
            group.cancel_scope.cancel()


async def test_only_a_session_that_is_named_can_be_ended() -> None:
    left: list[str] = []

    async def application(scope: Message, receive: Receive, send: Send) -> None:  # noqa: ARG001  the interface
        await checkpoint()

    guard = TokenGuard(application, "t", left.append)
    with fail_after(60):
        await guard(asked("", "DELETE"), never, send)
        await guard(asked("one", "DELETE"), never, send)
    assert left == ["one"]
