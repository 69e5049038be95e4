"""EditorAgent: answers each request of an editor with a session, or refuses it with a sentence."""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from acp import Agent, Client, RequestError, run_agent, schema
from anyio import CancelScope, Lock, create_task_group, to_thread
from anyio.abc import TaskGroup
from msgspec.structs import replace

from ipc.errors import IpcError
from vibe.acp.content import ContentBlock, GivenServer, folder_of, server_of
from vibe.acp.history import NOT_FOUND, SavedSessions
from vibe.acp.session import AUTH_REQUIRED, MODE, EditorSession, change_of, code_of, modes_of, options_of
from vibe.acp.transport import DELETE, SETUP_METHOD, LineTransport, abilities_of, initialize_result
from vibe.app.conversation.opening import Opening
from vibe.app.conversation.runtime import Runtime
from vibe.app.engine.host import Host
from vibe.app.first_use.flow import FirstUse
from vibe.core.config.paths import VibePaths
from vibe.system.errors import UsageError, VibeError, in_full, unexpected

logger = logging.getLogger(__name__)

NO_KEY = "no provider has a key yet: run `vibe setup` in a terminal, or set the variable of a provider's key"
"""The answer to an editor that wants to authenticate before a provider has a key."""


async def serve_requests(transport: LineTransport, host: Host) -> None:
    """Serve the requests of an editor until it is gone."""
    async with create_task_group() as tasks:  # Conversations begin tasks until they are closed.
        async with Runtime(host) as runtime:
            agent = EditorAgent(runtime, tasks, transport)
            with CancelScope(shield=True):  # It ends when the editor sends nothing more.
                await run_agent(agent, transport, use_unstable_protocol=True)
        tasks.cancel_scope.cancel()


class EditorAgent(Agent):  # noqa: PLR0904  a method for each request of the protocol
    """The agent at the end of one connection, with its own sessions. The protocol's library calls its methods."""

    def __init__(self, runtime: Runtime, tasks: TaskGroup, transport: LineTransport) -> None:
        self._runtime, self._host = runtime, runtime.host
        self._tasks, self._transport = tasks, transport
        self._sessions: dict[str, EditorSession] = {}
        self._reopening = Lock()
        self._client: Client

    def on_connect(self, conn: Client) -> None:
        """Store the connection."""
        self._client = conn

    async def initialize(self, *_: Any, **__: Any) -> schema.InitializeResponse:
        """Return our capabilities to an editor whose first request was another one, or that asks again."""
        return schema.InitializeResponse.model_validate(initialize_result(self._transport.capabilities))

    async def new_session(self, cwd: str, *_: Any, **given: Any) -> schema.NewSessionResponse:
        """Open a new conversation."""
        with _refusals():
            session = await self._opened(await _opening(cwd, **given))
            return schema.NewSessionResponse(session_id=session.channel.session_id, **_settings(session))

    async def authenticate(self, method_id: str, **_: Any) -> schema.AuthenticateResponse:
        """Check that a provider has a key."""
        with _refusals():
            if method_id != SETUP_METHOD:
                raise UsageError(f"there is no way {method_id[:80]!r} to authenticate: it is {SETUP_METHOD!r}")
            if await to_thread.run_sync(lambda: FirstUse(self._host, self._host.home).is_due):
                raise RequestError(AUTH_REQUIRED, NO_KEY)
            return schema.AuthenticateResponse()

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> schema.ListSessionsResponse:
        """List the saved sessions, including open ones."""
        with _refusals():
            folder = None if cwd is None else str(await to_thread.run_sync(folder_of, cwd, "cwd"))
            return (await self._saved()).listed(folder, cursor)

    async def load_session(self, cwd: str, session_id: str, *_: Any, **given: Any) -> schema.LoadSessionResponse:
        """Load a saved session, and replay its history."""
        with _refusals():
            session = await self._reopened(session_id, await _opening(cwd, **given))
            session.replay()
            await session.channel.flush()
            return schema.LoadSessionResponse(**_settings(session))

    async def resume_session(self, session_id: str, cwd: str, *_: Any, **given: Any) -> schema.ResumeSessionResponse:
        """Resume a saved session whose history the editor has."""
        with _refusals():
            session = await self._reopened(session_id, await _opening(cwd, **given))
            return schema.ResumeSessionResponse(**_settings(session))

    async def fork_session(self, session_id: str, cwd: str, *_: Any, **given: Any) -> schema.ForkSessionResponse:
        """Open a copy of a session. The original is left unchanged."""
        with _refusals():
            opening = await _opening(cwd, **given)
            saved = (await self._saved()).latest(session_id)
            session = await self._opened(replace(opening, resume=saved.folder.path.name, fork=True))
            return schema.ForkSessionResponse(session_id=session.channel.session_id, **_settings(session))

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> schema.SetSessionModeResponse:
        """Choose the agent of a session, starting with its next prompt."""
        await self.set_config_option(MODE, session_id, mode_id)
        return schema.SetSessionModeResponse()

    async def set_config_option(
        self, config_id: str, session_id: str, value: object, **_: Any
    ) -> schema.SetSessionConfigOptionResponse:
        """Change a setting of a session, starting with its next prompt."""
        with _refusals():
            conversation = self._session(session_id).conversation
            await conversation.configure(change_of(conversation, config_id, value))
            return schema.SetSessionConfigOptionResponse(config_options=[*options_of(conversation)])

    async def prompt(self, session_id: str, prompt: Sequence[ContentBlock], **_: Any) -> schema.PromptResponse:
        """Answer a prompt."""
        with _refusals():
            return await self._session(session_id).prompt(prompt)

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Cancel the prompt of a session."""
        if session := self._sessions.get(session_id):
            session.cancel()

    async def close_session(self, session_id: str, **_: Any) -> schema.CloseSessionResponse:
        """Save and close a session."""
        with _refusals():
            session = self._session(session_id)
            del self._sessions[session_id]
            await session.close()
            return schema.CloseSessionResponse()

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Delete a session. Refuse requests that are not part of the protocol."""
        if method == DELETE:
            session_id = schema.DeleteSessionRequest.model_validate(params).session_id
            with _refusals():
                await self._delete(session_id)
                return {}
        raise RequestError.method_not_found(f"_{method}")

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Ignore notifications that are not part of the protocol."""

    async def _opened(self, opening: Opening, session_id: str = "") -> EditorSession:
        can = abilities_of(self._transport.capabilities)
        session = EditorSession(self._runtime, opening, self._client, can, self._tasks)
        await session.open(session_id)
        self._sessions[session.channel.session_id] = session
        return session

    async def _reopened(self, session_id: str, opening: Opening) -> EditorSession:
        """Open a saved session under the id by which the editor knows it. An open one is saved and closed first."""
        async with self._reopening:
            latest = (await self._saved()).latest(session_id)
            if present := self._sessions.get(session_id):
                present.check_idle()
                del self._sessions[session_id]
                await present.close()
                latest = (await self._saved()).latest(session_id)
            return await self._opened(replace(opening, resume=latest.folder.path.name), session_id)

    async def _delete(self, session_id: str) -> None:
        """Close a session if it is open, and delete its saved data. Do nothing if there is no such session."""
        async with self._reopening:
            await to_thread.run_sync((await self._saved()).check_deletable, session_id)
            if session := self._sessions.pop(session_id, None):
                await session.close()
            await to_thread.run_sync((await self._saved()).delete, session_id)

    async def _saved(self) -> SavedSessions:
        return await to_thread.run_sync(SavedSessions, VibePaths(self._host.home).sessions)

    def _session(self, session_id: str) -> EditorSession:
        session = self._sessions.get(session_id)
        if session is None:
            raise RequestError(NOT_FOUND, f"there is no open session {session_id[:80]!r}: begin, load or resume one")
        return session


async def _opening(
    cwd: str,
    additional_directories: Sequence[str] | None = None,
    mcp_servers: Sequence[GivenServer] | None = None,
    **_: Any,
) -> Opening:
    """Return how the parameters of a request say to open a conversation. Reads the file system.

    Raises:
        UsageError: the parameters can't be used.
    """
    workdir = await to_thread.run_sync(folder_of, cwd, "cwd")
    roots = [await to_thread.run_sync(folder_of, one, "additionalDirectories") for one in additional_directories or ()]
    brought = tuple(map(server_of, mcp_servers or ()))
    # The user brings these servers along, and so knows them already.
    return Opening(workdir=workdir, extra_roots=tuple(roots), servers=brought, wait_for_servers=bool(brought))


def _settings(session: EditorSession) -> dict[str, Any]:
    """Return the settings that every answer to a request that opens a session contains."""
    return {"modes": modes_of(session.conversation), "config_options": options_of(session.conversation)}


@contextmanager
def _refusals() -> Generator[None]:
    """Turn errors into answers with a sentence."""
    try:
        yield
    except RequestError:
        raise
    except (VibeError, IpcError) as error:
        raise RequestError(code_of(error), in_full(error)) from error
    except Exception as error:
        logger.exception("a request of an editor failed")
        raise RequestError(code_of(error), unexpected(error)) from error
