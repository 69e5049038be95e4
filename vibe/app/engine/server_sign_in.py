"""Signing in to configured MCP servers, and out."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import to_thread

from vibe.app.engine.host import Host
from vibe.core.config.loader import ConfigRequest, LoadedConfig, load_config
from vibe.core.config.models import McpServerConfig, McpTransport
from vibe.core.config.paths import VibePaths
from vibe.core.tools.mcp.settings import endpoint_of
from vibe.core.tools.mcp.sign_ins import SignInStore
from vibe.system.errors import UsageError
from vibe.system.keyring import keyring_problem

if TYPE_CHECKING:
    from vibe.core.tools.mcp.login import SignInWay


class NoSignInError(UsageError):
    """A server without sign-in."""

    def __init__(self, server: str, problem: str) -> None:
        super().__init__(f"MCP server {server!r} {problem}")


class ServerSignIns:
    """The user's sign-ins to the servers that are configured for a folder."""

    def __init__(self, host: Host, workdir: Path, *, trust: bool = False) -> None:
        self._request = ConfigRequest(home=host.home, workdir=workdir, environ=host.environ, trust_workdir=trust)
        self._store = SignInStore(VibePaths(host.home).sign_ins)

    async def sign_in(self, server: str, way: SignInWay) -> str:
        """Have the user sign in, and return where that is kept; a sign-in from before is there until then.

        Raises:
            UsageError: there is no such server, or it has no sign-in.
            EnvironmentFailure: it came to nothing, or can't be kept.
        """
        from vibe.core.tools.mcp.login import signed_in  # noqa: PLC0415  loads what --help must not

        loaded = await to_thread.run_sync(load_config, self._request)
        config = _on_the_network(loaded, server)
        endpoint = endpoint_of(config, loaded.environ, self._request.workdir)
        if endpoint.has_key:
            raise NoSignInError(server, "has its own key: remove api_key_env or the Authorization header first")
        await to_thread.run_sync(self._store.find, endpoint.url)  # a file that is damaged is told before, not after
        sign_in = await signed_in(server, endpoint, way)
        problem = await to_thread.run_sync(keyring_problem)
        keep = partial(self._store.put, endpoint.url, sign_in, in_keyring=problem is None)
        await to_thread.run_sync(keep)
        return f"in {self._store.path}, for you alone to read ({problem})" if problem else "in the keyring"

    def sign_out(self, server: str) -> str | None:
        """Forget the tokens of a server, have it revoke them, and return why it did not. Blocks.

        Empty: it did, None: it never does.

        Raises:
            UsageError: there is no such server, or the user is not signed in.
            EnvironmentFailure: the file of sign-ins can't be changed.
        """
        config = _on_the_network(load_config(self._request), server)
        sign_in = self._store.drop(config.url)
        if sign_in is None:
            raise NoSignInError(server, "is not signed in: nothing to forget")
        from vibe.core.tools.mcp.token_auth import revocation_problem  # noqa: PLC0415  it loads httpx2

        return revocation_problem(sign_in)


def _on_the_network(loaded: LoadedConfig, server: str) -> McpServerConfig:
    configs = {config.name: config for config in loaded.config.mcp_servers}
    config = configs.get(server)
    if config is None:
        there = f"there are: {', '.join(configs)}" if configs else "none are; add one with `vibe mcp add`"
        raise NoSignInError(server, f"is not configured; {there}")
    if config.transport is McpTransport.STDIO:
        raise NoSignInError(server, "is a command on this machine, which needs no sign-in")
    return config
